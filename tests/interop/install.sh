#!/bin/sh
# Installs what package.json names into target/interop, unless it is there. Where that cannot be done the
# tests say that they were skipped; this says why, and does not fail.
set -u
cd "$(dirname "$0")/../.."
into=target/interop

cmp -s tests/interop/package.json "$into/installed.json" && exit 0
if ! command -v npm > /dev/null; then
    echo "interop: npm is not here to install the reference implementation with" >&2
    exit 0
fi
echo "installing the reference implementation in $into"
rm -rf "$into"
mkdir -p "$into"
cp tests/interop/package.json "$into/"
# Nothing of a package runs while it is installed. The engine is the Node among the packages, not npm's own.
if npm install --prefix "$into" --no-package-lock --ignore-scripts --omit=optional --no-audit --no-fund \
    --loglevel=error --fetch-retries=1 --fetch-retry-mintimeout=2000 > "$into/npm.log" 2>&1; then
    mv "$into/package.json" "$into/installed.json"
else
    echo "interop: npm could not install the reference implementation; see $into/npm.log" >&2
fi
