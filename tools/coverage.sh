#!/usr/bin/env bash
# tools/coverage.sh [JOBS] [FILTER]: builds the tests in build-coverage with clang's source-based coverage, runs them (or
# the ones that ctest's -R FILTER names) and prints, for every folder of causeway/, which share of its lines and
# functions ran. What runs on the emulator or in a kernel is not the program's own text and does not count.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=${1:-$(nproc)}
filter=${2:-.}
build=build-coverage
cmake -S . -B "$build" --preset clang -DCAUSEWAY_COVERAGE=ON
cmake --build "$build" --parallel "$jobs"

profiles=$PWD/$build/profiles
rm -rf "$profiles"
mkdir -p "$profiles"
# %4m: the processes of one program add up in at most four files.
failed=0
LLVM_PROFILE_FILE="$profiles/%4m.profraw" ctest --test-dir "$build" --output-on-failure --parallel "$jobs" -R "$filter" ||
  failed=1
llvm-profdata-22 merge --sparse -o "$build/tests.profdata" "$profiles"/*.profraw

objects=("$build/causeway")
for program in "$build"/tests/*_tests; do objects+=(--object "$program"); done
llvm-cov-22 report "${objects[@]}" --instr-profile "$build/tests.profdata" --show-branch-summary=false \
  --ignore-filename-regex='/(tests|examples|generated)/|^/usr/' > "$build/coverage.txt"
# Columns: file, regions, missed, share, functions, missed, share, lines, missed, share.
awk -v order="base $(sed -n 's/^CAUSEWAY_STAGE(\([a-z]*\),.*/\1/p' causeway/stages.def | tr '\n' ' ')" '
  NF == 10 && $2 ~ /^[0-9]+$/ && $1 != "TOTAL" {
    path = $1
    sub(/.*causeway\//, "", path)
    n = split(path, part, "/")
    folder = n > 1 ? part[1] : "."
    functions[folder] += $5; functions_missed[folder] += $6
    lines[folder] += $8; lines_missed[folder] += $9
    functions["all"] += $5; functions_missed["all"] += $6
    lines["all"] += $8; lines_missed["all"] += $9
  }
  function row(name) {
    printf "%-10s %7d %6.1f %% %10d %6.1f %%\n", name, lines[name], 100 - 100 * lines_missed[name] / lines[name],
           functions[name], 100 - 100 * functions_missed[name] / functions[name]
  }
  END {
    printf "%-10s %7s %8s %10s %8s\n", "folder", "lines", "run", "functions", "run"
    n = split(order, names, " ")
    for (i = 1; i <= n; ++i) {
      if (names[i] in lines) row(names[i])
      known[names[i]] = 1
    }
    for (name in lines) if (!(name in known) && name != "all") row(name)
    row("all")
  }' "$build/coverage.txt"
echo "By file: $build/coverage.txt"
exit "$failed"
