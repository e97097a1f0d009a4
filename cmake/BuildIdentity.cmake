# causeway_add_build_identity(TARGET): program_version() and program_commit() for TARGET, looked up at every build, in a
# source of their own, so that a new commit compiles one small file.

function(causeway_add_build_identity target)
  set(output ${CMAKE_BINARY_DIR}/generated/build_identity.cpp)
  add_custom_target(${target}_build_identity
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DOUTPUT=${output} -DVERSION=${PROJECT_VERSION}
      -P ${CMAKE_SOURCE_DIR}/cmake/WriteBuildIdentity.cmake
    BYPRODUCTS ${output}
    COMMENT "Looking up the commit" VERBATIM)
  target_sources(${target} PRIVATE ${output})
  add_dependencies(${target} ${target}_build_identity)
endfunction()
