# Embeds every header under causeway/kernels/ into `target`, for the compiler in the program to include by the same path
# that a source file would use. causeway/codegen/kernel_text.h declares the result.

function(causeway_embed_kernel_text target)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/causeway/kernels/*.h)
  list(SORT headers)
  set(output ${CMAKE_BINARY_DIR}/generated/kernel_text.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/WriteKernelText.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DOUTPUT=${output} -P ${script}
    DEPENDS ${headers} ${script}
    COMMENT "Embedding kernel text" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
