# causeway_embed_text(TARGET HEADER FUNCTION PATTERN...) embeds every file that matches a pattern, relative to the source
# tree, into TARGET. `std::span<const EmbeddedText> FUNCTION()`, which HEADER declares, returns them, sorted by path;
# see causeway/base/embedded_text.h.

function(causeway_embed_text target header function)
  set(files "")
  foreach(pattern ${ARGN})
    file(GLOB_RECURSE found RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${pattern})
    list(APPEND files ${found})
  endforeach()
  list(SORT files)
  list(TRANSFORM files PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE inputs)
  string(JOIN "|" joined ${files})
  set(output ${CMAKE_BINARY_DIR}/generated/${function}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/WriteEmbeddedText.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DOUTPUT=${output} -DHEADER=${header} -DFUNCTION=${function}
      -DFILES=${joined} -P ${script}
    DEPENDS ${inputs} ${script}
    COMMENT "Embedding text for ${function}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
