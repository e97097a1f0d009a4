#!/usr/bin/env bash
# tools/bundle.sh <build directory>
# Packs the program and the shared libraries it needs beyond glibc into causeway-linux-x86_64.tar.xz. The program finds
# them beside itself (run path $ORIGIN/../lib); the machine that runs it needs glibc and nothing else.
set -euo pipefail

build=${1:?usage: tools/bundle.sh <build directory>}
name=causeway-linux-x86_64
stage=$build/bundle/$name
program=$build/causeway

[ -x "$program" ] || { echo "error: $program is not built; run make build" >&2; exit 1; }
rm -rf "$build/bundle"
mkdir -p "$stage/bin" "$stage/lib"
strip -o "$stage/bin/causeway" "$program"

glibc='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so'
ldd "$program" | while read -r library arrow path _; do
  [[ $(basename "$library") =~ $glibc ]] && continue
  if [ "$arrow" != "=>" ] || [ ! -e "$path" ]; then
    echo "error: $program needs $library, which is not found" >&2
    exit 1
  fi
  cp -L "$path" "$stage/lib/$library"
  strip "$stage/lib/$library"
done
rmdir --ignore-fail-on-non-empty "$stage/lib"
[ ! -d recipes ] || cp -R recipes "$stage/recipes"

tar -C "$build/bundle" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | xz -9 -T0 > "$build/$name.tar.xz"
echo "program:  $(stat -c %s "$stage/bin/causeway") bytes stripped"
echo "archive:  $(stat -c %s "$build/$name.tar.xz") bytes, $build/$name.tar.xz"
