#!/usr/bin/env bash
# tools/run_tests.sh [BUILD_FOLDER] [JOBS]: runs every test and shows what ctest prints, with one difference: before
# ctest's own closing lines, which stay last, the tests that were skipped are listed with the reason each gives, and what
# failed is shown once more, so that the end of a log says why. Ends with ctest's status.
set -u -o pipefail
build=${1:-build}
jobs=${2:-$(nproc)}

# "N test(s) skipped:", a line for each reason and below it the tests that gave it, from ctest's log.
skipped_tests() {
  awk '
    /^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); name = $0; reason = ""; reading = 0 }
    reading && (NF == 0 || /^\[/) { reading = 0 }
    reading { sub(/ *\[  SKIPPED \].*/, "") }
    reading { reason = reason (reason == "" ? "" : " ") $0 }
    /: Skipped$/ && reason == "" { reading = 1 }
    /^Skip regular expression found in output/ {
      if (reason == "") reason = "It gives no reason."
      if (!(reason in names)) order[++reasons] = reason
      names[reason] = names[reason] "    " name "\n"
      ++skipped
      reason = ""
    }
    END {
      if (!skipped) exit
      printf "\n%d test%s skipped:\n", skipped, skipped == 1 ? "" : "s"
      for (i = 1; i <= reasons; ++i) printf "  %s\n%s", order[i], names[order[i]]
    }' "$build/Testing/Temporary/LastTest.log"
}

# What the tests that failed printed last, from ctest's log.
failed_tests() {
  awk -v most_tests=8 -v most_lines=40 '
    /^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); name = $0; lines = 0 }
    /^<end of output>$/ { reading = 0 }
    reading && !/^-+$/ { text[++lines] = $0 }
    /^Output:$/ { reading = 1 }
    /^Test Failed\.$/ && ++failed <= most_tests {
      printf "\n%s failed. The last of what it printed:\n", name
      for (i = lines > most_lines ? lines - most_lines + 1 : 1; i <= lines; ++i) print "  " text[i]
    }
    END { if (failed > most_tests) printf "\nand %d more\n", failed - most_tests }
  ' "$build/Testing/Temporary/LastTest.log"
}

# Everything up to the summary is passed on as it comes; ctest's bare list of skipped tests gives way to ours.
closing=$(mktemp)
trap 'rm -f "$closing"' EXIT
ctest --test-dir "$build" --output-on-failure --parallel "$jobs" 2>&1 | awk -v closing="$closing" '
  /^[0-9]+% tests passed, / { at_end = 1 }
  /^The following tests did not run:$/ { in_list = 1; next }
  in_list && /^\t/ { next }
  { in_list = 0 }
  at_end { print > closing; next }
  { print; fflush() }'
status=$?
skipped_tests
failed_tests
printf '\n'
cat "$closing"
exit "$status"
