# Clang, LLVM (X86, NVPTX, AMDGPU) and lld's ELF linker, linked statically into whatever links `target`.
#
# The libraries are the distribution's archives. Their symbols stay out of the dynamic symbol table, because AMD's
# runtime brings an LLVM of its own into the process.

# The LLVM of the compiler that builds the program (CMakePresets.json): kernel text and C++ are read alike.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT CMAKE_CXX_COMPILER_VERSION MATCHES "^22\\.")
  message(FATAL_ERROR "Causeway is built with clang 22, which is also embedded: cmake --preset clang")
endif()
find_program(CAUSEWAY_LLVM_CONFIG NAMES llvm-config-22 REQUIRED)

set(CAUSEWAY_LLVM_COMPONENTS x86 nvptx amdgpu passes lto dtlto option coverage frontenddriver frontendopenmp frontendhlsl)
set(CAUSEWAY_CLANG_LIBRARIES clangFrontend clangCodeGen clangDriver clangSerialization clangParse clangSema
  clangAPINotes clangAnalysis clangAnalysisLifetimeSafety clangEdit clangOptions clangSupport clangASTMatchers clangAST
  clangLex clangBasic)

# The only sources that include LLVM's headers; LLVM is built without RTTI and they must match.
set(CAUSEWAY_LLVM_SOURCES causeway/codegen/checks/gcn_disassembly.cpp causeway/codegen/compile/embedded_clang.cpp
  causeway/codegen/compile/gpu_module.cpp causeway/codegen/compile/gpu_passes.cpp)

function(causeway_link_embedded_compiler target)
  execute_process(COMMAND ${CAUSEWAY_LLVM_CONFIG} --includedir OUTPUT_VARIABLE include_directory
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CAUSEWAY_LLVM_CONFIG} --libdir OUTPUT_VARIABLE library_directory
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CAUSEWAY_LLVM_CONFIG} --link-static --libs ${CAUSEWAY_LLVM_COMPONENTS}
    OUTPUT_VARIABLE llvm_libraries OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(llvm_libraries)
  list(TRANSFORM llvm_libraries REPLACE "^-l" "")
  # Named by llvm-config but not shipped; embedded_clang.cpp supplies the one entry point.
  list(REMOVE_ITEM llvm_libraries Polly PollyISL)

  set(archives)
  foreach(name lldELF lldCommon ${CAUSEWAY_CLANG_LIBRARIES} ${llvm_libraries})
    set(archive ${library_directory}/lib${name}.a)
    if(NOT EXISTS ${archive})
      message(FATAL_ERROR "${archive} is missing: make build-deps installs the packages that have it")
    endif()
    list(APPEND archives ${archive})
  endforeach()
  # Static too, so that the program runs where these packages are absent.
  foreach(name zstd z tinfo)
    find_library(CAUSEWAY_STATIC_${name} NAMES lib${name}.a REQUIRED)
    list(APPEND archives ${CAUSEWAY_STATIC_${name}})
  endforeach()

  list(TRANSFORM CAUSEWAY_LLVM_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  set_source_files_properties(${sources} PROPERTIES
    COMPILE_OPTIONS "-fno-rtti;-isystem${include_directory}" SKIP_PRECOMPILE_HEADERS ON)
  target_link_libraries(${target} PRIVATE ${archives} ${CMAKE_DL_LIBS} m)
  target_link_options(${target} INTERFACE -Wl,--gc-sections)
  # A sanitizer's run-time library is an archive too, whose symbols instrumented shared objects look up.
  if(NOT CAUSEWAY_SANITIZE)
    target_link_options(${target} INTERFACE -Wl,--exclude-libs,ALL)
  endif()
endfunction()
