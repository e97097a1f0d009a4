#!/usr/bin/env bash
# tools/bundle.sh <build directory>
# Packs the stripped program, with the recipes and the documents, into causeway-linux-x86_64.tar.xz. The machine that runs it needs glibc
# and nothing else, so a program that needs more is an error here.
set -euo pipefail

build=${1:?usage: tools/bundle.sh <build directory>}
name=causeway-linux-x86_64
stage=$build/bundle/$name
program=$build/causeway

[ -x "$program" ] || { echo "error: $program is not built; run make build" >&2; exit 1; }
rm -rf "$build/bundle"
mkdir -p "$stage/bin"
strip -o "$stage/bin/causeway" "$program"

others=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt)\.so' || true)
if [ -n "$others" ]; then
  echo "error: $program needs shared libraries besides glibc: ${others//$'\n'/ }" >&2
  echo "Link them statically (cmake/StaticDependencies.cmake)." >&2
  exit 1
fi
[ ! -d recipes ] || cp -R recipes "$stage/recipes"
cp -R LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs "$stage"

tar -C "$build/bundle" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | xz -9 -T0 > "$build/$name.tar.xz"
echo "program:  $(stat -c %s "$stage/bin/causeway") bytes stripped"
echo "archive:  $(stat -c %s "$build/$name.tar.xz") bytes, $build/$name.tar.xz"
