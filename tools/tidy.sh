#!/usr/bin/env bash
# tools/tidy.sh [JOBS] [FILE...]: clang-tidy-19 with the checks of .clang-tidy over the files, by default every source of
# causeway/, tests/ and examples/. Needs a configured build folder (compile_commands.json). Ends with 0 when nothing was
# found.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
jobs=${1:-$(nproc)}
shift
build=${CAUSEWAY_BUILD:-build}
if [ ! -f "$build/compile_commands.json" ]; then
  echo "$build/compile_commands.json is missing: make build" >&2
  exit 2
fi
if [ $# = 0 ]; then
  # Sources that the build knows; kernel text and stand-ins are read by way of those that include them.
  mapfile -t files < <(git ls-files 'causeway/*.cpp' 'tests/*.cpp' 'examples/*.cpp' |
    while read -r file; do grep -q "/$file\"" "$build/compile_commands.json" && echo "$file"; done)
else
  files=("$@")
fi
# Without precompiled headers, which are there only once the tests have been built.
mkdir -p "$build/tidy"
sed -E 's/ -Winvalid-pch//; s/ -Xclang -include(-pch)? -Xclang [^ "]+//g' "$build/compile_commands.json" \
  > "$build/tidy/compile_commands.json" || exit 2
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 1 clang-tidy-19 -p "$build/tidy" --quiet 2> /dev/null
status=$?
if [ $status = 0 ]; then echo "clang-tidy: ${#files[@]} files, nothing found"; fi
exit $status
