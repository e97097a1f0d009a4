#!/usr/bin/env bash
# tools/tidy.sh [JOBS] [FILE...]: clang-tidy-22 with the checks of .clang-tidy over the files, by default every source of
# causeway/, tests/ and examples/. Ends with 0 when nothing was found.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
jobs=${1:-$(nproc)}
shift
build=${CAUSEWAY_BUILD:-build}/tidy
# How each file is compiled by itself, without headers that only a build makes.
cmake -S . -B "$build" --preset clang -DCMAKE_UNITY_BUILD=OFF \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON > /dev/null || exit 2
if [ $# = 0 ]; then
  # Sources that the build knows; kernel text and stand-ins are read by way of those that include them.
  mapfile -t files < <(git ls-files 'causeway/*.cpp' 'tests/*.cpp' 'examples/*.cpp' |
    while read -r file; do grep -q "/$file\"" "$build/compile_commands.json" && echo "$file"; done)
else
  files=("$@")
fi
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 1 clang-tidy-22 -p "$build" --quiet 2> /dev/null
status=$?
if [ $status = 0 ]; then echo "clang-tidy: ${#files[@]} files, nothing found"; fi
exit $status
