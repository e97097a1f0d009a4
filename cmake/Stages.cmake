# A target for each stage of the pipeline, stage_graph for causeway/graph/, in the order of causeway/stages.def. A
# stage links to the one before it, so that its link interface is that stage and all before it; the architecture tests
# find an include or a symbol that points the other way. A folder without sources (kernel text) is an interface.
#
# causeway_add_stages(LIBRARY PROGRAM_STAGE GENERATED) adds them all but PROGRAM_STAGE, whose sources are the program's,
# and LIBRARY, one archive of their objects and of those of GENERATED. That is a target of its own because CMake runs
# what generates a target's sources after everything that the target links to is compiled.

set(CAUSEWAY_STAGE_LIST ${CMAKE_SOURCE_DIR}/causeway/stages.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CAUSEWAY_STAGE_LIST})
file(STRINGS ${CAUSEWAY_STAGE_LIST} CAUSEWAY_STAGES REGEX "^CAUSEWAY_STAGE")
list(TRANSFORM CAUSEWAY_STAGES REPLACE "^CAUSEWAY_STAGE.([a-z]+),.*" "\\1")
list(PREPEND CAUSEWAY_STAGES base)

function(causeway_add_stages library program_stage generated)
  set(objects $<TARGET_OBJECTS:${generated}>)
  set(before "")
  foreach(stage ${CAUSEWAY_STAGES})
    if(stage STREQUAL program_stage)
      continue()
    endif()
    set(target stage_${stage})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS causeway/${stage}/*.cpp)
    if(NOT sources)
      add_library(${target} INTERFACE)
      target_link_libraries(${target} INTERFACE ${before})
    else()
      add_library(${target} OBJECT ${sources})
      target_link_libraries(${target} PUBLIC ${before})
      # What a program does not use is left out of it.
      target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
      causeway_unity_build(${target})
      # Parsed once for all of them.
      if(headers_of)
        target_precompile_headers(${target} REUSE_FROM ${headers_of})
      else()
        causeway_precompile_headers(${target})
        set(headers_of ${target})
      endif()
      list(APPEND objects $<TARGET_OBJECTS:${target}>)
    endif()
    set(before ${target})
  endforeach()
  target_include_directories(stage_base PUBLIC ${CMAKE_SOURCE_DIR})

  add_library(${library} STATIC ${objects})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_features(${library} PUBLIC cxx_std_20)
endfunction()
