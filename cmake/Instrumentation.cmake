# Variants of the build for `make sanitize`, `make sanitize-thread` and `make coverage` (tools/sanitize.sh,
# tools/coverage.sh). Causeway's own code is instrumented; LLVM's archives, the other packages and the kernels that the
# embedded compiler makes are not.
#
#   CAUSEWAY_SANITIZE=address   AddressSanitizer with LeakSanitizer, and UndefinedBehaviorSanitizer
#   CAUSEWAY_SANITIZE=thread    ThreadSanitizer
#   CAUSEWAY_COVERAGE=ON        counts which lines run

set(CAUSEWAY_SANITIZE "" CACHE STRING "address or thread")
option(CAUSEWAY_COVERAGE "count which lines run" OFF)

if(CAUSEWAY_SANITIZE STREQUAL "address")
  # Left out: vptr, as LLVM is built without RTTI; function, which reads the bytes before a function that is called
  # through a pointer, where compiled kernels have nothing.
  set(CAUSEWAY_INSTRUMENTATION -fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
elseif(CAUSEWAY_SANITIZE STREQUAL "thread")
  set(CAUSEWAY_INSTRUMENTATION -fsanitize=thread)
elseif(CAUSEWAY_SANITIZE)
  message(FATAL_ERROR "CAUSEWAY_SANITIZE is '${CAUSEWAY_SANITIZE}': expected address or thread")
endif()
if(CAUSEWAY_SANITIZE)
  # Loops of kernel text that have to be vectorized are not, between the sanitizer's checks.
  add_compile_options(-O1 -gline-tables-only -fno-omit-frame-pointer -Wno-pass-failed)
endif()
if(CAUSEWAY_COVERAGE)
  list(APPEND CAUSEWAY_INSTRUMENTATION -fprofile-instr-generate -fcoverage-mapping)
  # Counts do not depend on optimization, and a build takes less time with less of it.
  add_compile_options(-O1 -Wno-pass-failed)
endif()
add_compile_options(${CAUSEWAY_INSTRUMENTATION})
add_link_options(${CAUSEWAY_INSTRUMENTATION})
