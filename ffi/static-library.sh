#!/bin/sh
# Makes the static library that is shipped from the one that cargo makes.
#
# Cargo's archive also exports Rust's and SQLite's symbols and would take the place of the program's own SQLite.
# This one is a single object that exports what the header declares, and nothing else.
#
#   static-library.sh <libpisession.a of cargo> <symbols.txt> <libpisession.a to write>
set -eu

archive=$1
symbols=$2
output=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ld -r --whole-archive "$archive" -o "$work/pisession.o"
objcopy -R .llvmbc -R .llvmcmd --keep-global-symbols="$symbols" "$work/pisession.o"
rm -f "$output"
ar rcs "$output" "$work/pisession.o"
