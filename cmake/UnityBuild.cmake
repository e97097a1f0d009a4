# Sources are compiled in units of several files of one folder, in half the time that they take one by one: headers
# are parsed, and templates instantiated, once for a unit. So the names of one folder's files must differ, those in
# unnamed namespaces too. -DCMAKE_UNITY_BUILD=OFF compiles each file by itself, as the builds with sanitizers do, which
# find a file that does not include what it uses.

if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()

set(CAUSEWAY_UNIT_FILES 16)

# Puts the sources of a target in units. A new file moves the files of its own folder alone into other units.
function(causeway_unity_build target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" name)
    list(APPEND files_${name} ${source})
    list(APPEND names ${name})
  endforeach()
  list(REMOVE_DUPLICATES names)
  foreach(name ${names})
    list(LENGTH files_${name} count)
    math(EXPR units "(${count} + ${CAUSEWAY_UNIT_FILES} - 1) / ${CAUSEWAY_UNIT_FILES}")
    set(index 0)
    foreach(source ${files_${name}})
      math(EXPR unit "${index} * ${units} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${unit})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
endfunction()
