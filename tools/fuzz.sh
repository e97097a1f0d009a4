#!/usr/bin/env bash
# Runs fuzz targets, one after another: tools/fuzz.sh PROGRAM SECONDS [TARGET...]. Without targets, all. Inputs that
# lead to new code are kept in corpus/TARGET beside the program, inputs that fail in failures/, and what libFuzzer says
# in logs/TARGET. Ends with 1 when a target failed.
set -u
program=$(realpath "$1")
seconds=$2
shift 2
seeds=$(dirname "$(realpath "$0")")/../tests/fuzz/corpus
work=$(dirname "$program")
targets=("$@")
if [ ${#targets[@]} = 0 ]; then targets=($(ls "$seeds")); fi
mkdir -p "$work/failures" "$work/logs"
status=0
# -timeout is of the wall clock: beside other work an input may wait for many seconds.
# -malloc_limit_mb: the window of zstd that is read may have 2 GiB, of which what is not written takes no memory.
for target in "${targets[@]}"; do
  mkdir -p "$work/corpus/$target"
  "$program" "--target=$target" "-max_total_time=$seconds" -max_len=65536 -timeout=120 -rss_limit_mb=2048 -malloc_limit_mb=4096 \
    -print_final_stats=1 "-artifact_prefix=$work/failures/$target-" "$work/corpus/$target" "$seeds/$target" \
    > "$work/logs/$target" 2>&1
  outcome=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/logs/$target")
  coverage=$(grep -o 'cov: [0-9]*' "$work/logs/$target" | tail -1 | cut -d' ' -f2)
  kept=$(ls "$work/corpus/$target" | wc -l)
  echo "$target: ${executions:-?} executions, coverage ${coverage:-?}, $kept inputs kept$([ $outcome = 0 ] || echo ", FAILED: see $work/logs/$target")"
  [ $outcome = 0 ] || status=1
done
exit $status
