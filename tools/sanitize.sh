#!/usr/bin/env bash
# tools/sanitize.sh address|thread [JOBS]: builds the tests in build-address or build-thread with clang's sanitizers and
# runs those that mean something under them. Ends with 0 when every program passed without a report.
#
#   address   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, over everything but what runs on the
#             emulator: its threads are fibers, whose stacks AddressSanitizer takes for damaged ones; and but what runs
#             under MPICH, whose ranks end by a jump to nowhere before they do anything. Open MPI ends with memory of
#             its own in use, so leaks are not looked for under it
#   thread    ThreadSanitizer, over what several threads of a process share: the thread pool, logs, the batch loader,
#             checkpoints, ranks that are threads with their communicators, control plane and training, and programs on
#             the processor
#
# Kernels that the embedded compiler makes, LLVM and the packages linked in are not instrumented.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
kind=${1:-}
jobs=${2:-$(nproc)}
emulator='*Emulat*:*emulator*:*OnGpu*:GpuGemm*:GpuAttention*:GpuTranspose*:HopperGemm.*:NamedBarriers*'
emulator+=':Mbarriers*:WarpgroupUnit*:WaveMma*:AsyncView*:TensorCopies*:AsynchronousCopy*:ThreadCopies*'
emulator+=':*sm_90a*:*gfx942*:*DeviceChange*:PersistentBlocks*:TwoContexts*'
case $kind in
  address)
    # A test program and the tests of it to run.
    runs=(
      "base_tests *" "graph_tests *" "formats_tests *" "fuzz_tests *" "plan_tests *" "device_tests *-$emulator"
      "communicator_tests *-Installed/*" "communicator_tests Installed/*OpenMpi" "passes_tests *-$emulator"
      "kernels_tests *-$emulator:*Resources*" "codegen_tests *" "program_tests *-Installed/*:$emulator"
      "tensor_tests *-$emulator" "model_tests *-$emulator" "evaluation_tests *-$emulator" "data_tests *"
      "train_tests *-*GpuGate*:$emulator" "bench_tests *-*ReportPage*" "cli_tests *-Installed/*:$emulator"
      "cli_tests Installed/*OpenMpi-*LaunchTest.St*")
    # No stack use after return: the fibers of what is left of the emulator switch stacks.
    export ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1:check_initialization_order=1
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
  thread)
    # No handler of a signal runs in the child that the test left out forks.
    training='Checkpoint*:*StateSnapshot*/cpu:*Log.*:Signals*:ProgressLine*:ShardedRun*'
    training+=':TwoContexts.TwoThreadsOnProcessors'
    runs=(
      "base_tests *" "data_tests *" "communicator_tests *-Installed/*"
      "train_tests $training-Signals.SecondInterruptExitsAtOnce"
      "program_tests *OnCpu*:RankProgramsTest*:Devices/RankPrograms*/cpu-*Random*" "tensor_tests ShardedTensor*"
      "bench_tests *ResultsStore*:*Telemetry*")
    export TSAN_OPTIONS=history_size=4
    ;;
  *)
    echo "usage: tools/sanitize.sh address|thread [JOBS]" >&2
    exit 2
    ;;
esac

build=build-$kind
cmake -S . -B "$build" --preset clang \
  -DCAUSEWAY_SANITIZE="$kind" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF || exit 1
targets=(causeway_program)
for run in "${runs[@]}"; do targets+=("${run%% *}"); done
cmake --build "$build" --parallel "$jobs" --target "${targets[@]}" || exit 1

failed=()
for run in "${runs[@]}"; do
  program=${run%% *}
  log=$build/$program.log
  started=$SECONDS
  leaks=1
  case $run in *" Installed/"*) leaks=0 log=$build/$program-launched.log ;; esac
  if ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=$leaks "$build/tests/$program" \
    --gtest_filter="${run#* }" > "$log" 2>&1; then
    state=clean
  else
    state=FAILED
    failed+=("$log")
  fi
  printf '%-15s %-7s %5d s  %s\n' "$program" "$state" $((SECONDS - started)) "$(grep -E '^\[  PASSED  \]' "$log")"
done
for log in "${failed[@]}"; do
  printf '\n%s:\n' "$log"
  grep -E -A 25 'ERROR: |WARNING: ThreadSanitizer|runtime error:|^\[  FAILED  \]' "$log" | head -80
done
[ ${#failed[@]} = 0 ]
