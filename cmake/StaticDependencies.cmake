# The ordinary libraries, linked statically, so that a program needs glibc and nothing else on the machine that runs it,
# and so that a vendor library opened at run time meets no second copy of the C++ runtime among the program's own
# symbols.
#
# fmt is shipped as a shared library and as headers: causeway/base/fmt_library.cpp compiles its out-of-line half once.
# spdlog's headers are compiled in the one file that includes them.

function(causeway_link_static_dependencies target)
  foreach(name yaml-cpp xxhash boost_context mbedcrypto sqlite3 pcre2-8 utf8proc)
    find_library(CAUSEWAY_STATIC_${name} NAMES lib${name}.a REQUIRED)
    target_link_libraries(${target} PRIVATE ${CAUSEWAY_STATIC_${name}})
  endforeach()
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_source_files_properties(${CMAKE_SOURCE_DIR}/causeway/base/log.cpp PROPERTIES
    COMPILE_DEFINITIONS "SPDLOG_HEADER_ONLY;SPDLOG_FMT_EXTERNAL")
  target_link_options(${target} INTERFACE -static-libstdc++ -static-libgcc)
endfunction()
