# causeway_check_kernel_syntax(TARGET): before TARGET is built, kernel text is parsed as the embedded compiler takes it
# (the arguments are those of causeway/codegen/compile/compiler.cpp that parsing goes by), for each architecture and for the emulator of each,
# so that a mistake shows before a kernel that includes it is generated. Templates are parsed and not instantiated: what
# they are instantiated with is generated (tests/kernels/).

set(CAUSEWAY_KERNEL_SYNTAX_ARGUMENTS -cc1 -fsyntax-only -x c++ -std=c++20 -O3 -ffreestanding -fno-rtti -nostdsysteminc
  -nobuiltininc -I${CMAKE_SOURCE_DIR} -ffp-contract=fast -fvisibility=hidden -fno-threadsafe-statics -Wno-pass-failed
  -Wall -Wextra -Wno-unused-parameter -Werror)

# What intrinsics.h and hopper.h choose among by the architecture, and so include themselves.
set(CAUSEWAY_KERNEL_HEADERS_OF_INTRINSICS "/gpu/(amd|nvidia|emulator)(_[a-z]+)?\\.h$")

# Headers whose paths match EXCLUDED are for other targets than NAME, which the remaining arguments are for.
function(causeway_check_kernel_syntax_for name headers excluded)
  list(FILTER headers EXCLUDE REGEX "${excluded}")
  list(JOIN headers "\"\n#include \"" text)
  set(source ${CMAKE_BINARY_DIR}/kernel_syntax/${name}.cpp)
  set(stamp ${CMAKE_BINARY_DIR}/kernel_syntax/${name}.stamp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${text}\"\n" @ONLY)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_CXX_COMPILER} ${CAUSEWAY_KERNEL_SYNTAX_ARGUMENTS} ${ARGN} ${source}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${source} ${CAUSEWAY_KERNEL_PATHS}
    COMMENT "Parsing kernel text for ${name}" VERBATIM)
  set(CAUSEWAY_KERNEL_SYNTAX_STAMPS ${CAUSEWAY_KERNEL_SYNTAX_STAMPS} ${stamp} PARENT_SCOPE)
endfunction()

function(causeway_check_kernel_syntax target)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/causeway/kernels/*.h)
  list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE CAUSEWAY_KERNEL_PATHS)
  set(x86 ${headers})
  list(FILTER x86 EXCLUDE REGEX "/gpu/|/kernels/block.h")
  set(processor -triple x86_64-unknown-linux-gnu -mrelocation-model pic -pic-level 2)
  causeway_check_kernel_syntax_for(avx2 "${x86}" none ${processor} -target-cpu x86-64-v3)
  causeway_check_kernel_syntax_for(avx512 "${x86}" none ${processor} -target-cpu x86-64-v4)
  causeway_check_kernel_syntax_for(amx "${x86}" none ${processor} -target-cpu x86-64-v4 -target-feature +avx512bf16
    -target-feature +amx-tile -target-feature +amx-bf16)

  set(gpu ${headers})
  list(FILTER gpu EXCLUDE REGEX "/x86/|${CAUSEWAY_KERNEL_HEADERS_OF_INTRINSICS}")
  set(nvidia -triple nvptx64-nvidia-cuda -target-feature +ptx80)
  set(amd -triple amdgcn-amd-amdhsa -mrelocation-model pic -pic-level 2)
  foreach(architecture "sm_80 CAUSEWAY_NVIDIA=80 nvidia hopper|cdna" "sm_90a CAUSEWAY_NVIDIA=90 nvidia cdna"
      "gfx90a CAUSEWAY_AMD=0x90a amd hopper" "gfx942 CAUSEWAY_AMD=0x942 amd hopper")
    separate_arguments(architecture)
    list(GET architecture 0 name)
    list(GET architecture 1 definition)
    list(GET architecture 2 vendor)
    list(GET architecture 3 excluded)
    causeway_check_kernel_syntax_for(${name} "${gpu}" "${excluded}" ${${vendor}} -target-cpu ${name}
      -fconvergent-functions -D${definition})
    causeway_check_kernel_syntax_for(emulator_${name} "${gpu}" "${excluded}" ${processor} -target-cpu x86-64-v3
      -fconvergent-functions -DCAUSEWAY_EMULATOR=1 -D${definition})
  endforeach()
  add_custom_target(causeway_kernel_syntax ALL DEPENDS ${CAUSEWAY_KERNEL_SYNTAX_STAMPS})
  add_dependencies(${target} causeway_kernel_syntax)
endfunction()
