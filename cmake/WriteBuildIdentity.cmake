# cmake -DROOT=<repository> -DOUTPUT=<file.cpp> -DVERSION=<x.y.z> -P WriteBuildIdentity.cmake
# Writes what causeway/bench/environment.h says of the program, and touches the file only when that has changed. A source
# tree that lies in somebody else's repository has no commit of its own.

set(commit unknown)
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${ROOT} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(top)
    file(REAL_PATH ${top} top)
    file(REAL_PATH ${ROOT} root)
    if(top STREQUAL root)
      execute_process(COMMAND ${git} -C ${ROOT} rev-parse --verify --quiet HEAD
        OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      # Takes no lock: somebody may be committing while this builds.
      execute_process(COMMAND ${git} --no-optional-locks -C ${ROOT} status --porcelain --untracked-files=no
        OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(head AND changes)
        set(commit ${head}-modified)
      elseif(head)
        set(commit ${head})
      endif()
    endif()
  endif()
endif()

set(text "#include \"causeway/bench/environment.h\"

namespace causeway::bench {

std::string_view program_version() { return \"${VERSION}\"; }
std::string_view program_commit() { return \"${commit}\"; }

}  // namespace causeway::bench
")
set(present "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} present)
endif()
if(NOT text STREQUAL present)
  file(WRITE ${OUTPUT} "${text}")
endif()
