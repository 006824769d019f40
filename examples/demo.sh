#!/bin/sh
# Shows what this is: builds everything, imports a session file of a coding agent, then lets a C and a Python
# program take turns on one session. `make demo` calls it, from the top folder.
set -eu

file=${FILE:-examples/data/sample.jsonl}
venv=${VENV:-.venv}
say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

say "Building the C library and the command line (the first time takes some minutes)"
cargo build --quiet --release -p pisession-ffi -p pisession-cli
PATH="$PWD/target/release:$PATH"
LD_LIBRARY_PATH="$PWD/demo/lib"
export PATH LD_LIBRARY_PATH

say "Building the Python package, into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check ./python

say "Compiling the C program"
rm -rf demo
mkdir -p demo/lib
# The names that linker and loader look for.
ln -s ../../target/release/libpisession.so demo/lib/libpisession.so
soname=$(readelf -d target/release/libpisession.so | sed -n 's/.*soname: \[\(.*\)\].*/\1/p')
ln -s libpisession.so "demo/lib/$soname"
show gcc -Wall -Wextra -Iinclude examples/c/notebook.c -o demo/notebook -Ldemo/lib -lpisession

say "Importing $file into demo/sessions; the file itself is only read"
# Files of users are often damaged: what can be read is taken. Exit code 1 means: imported, with warnings.
show pisession import "$file" --into sqlite:demo/sessions --salvage || [ $? -eq 1 ]

say "The session that came of it, as a tree"
id=$(pisession ls sqlite:demo/sessions --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | head -n 1)
show pisession tree "sqlite:demo/sessions#$id"

say "A C program and a Python program take turns on one new session, at the same time"
turns=5
"$venv/bin/python" examples/python/notebook.py sqlite:demo/sessions notebook $turns &
python=$!
# C is up in no time; it waits until Python has made the session, so that the turns mix.
tries=0
while [ ! -e demo/sessions/notebook.sqlite ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.02
done
demo/notebook sqlite:demo/sessions notebook $turns
wait $python

say "What they wrote: two branches of one tree"
show pisession tree "sqlite:demo/sessions#notebook"
show pisession ls sqlite:demo/sessions --details
show pisession doctor sqlite:demo/sessions

say "Done. Everything is in the folder demo; look around with target/release/pisession"
