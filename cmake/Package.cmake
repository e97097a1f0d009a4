# The installed package: `cmake --install build --prefix DIR` gives the program, the recipes, the documents, the
# public headers, libcauseway.a and causewayConfig.cmake. examples/ is a project that uses it.
#
# The archives that libcauseway.a needs (LLVM, clang, lld, yaml-cpp, ...) are the distribution's and are not copied: the
# exported target names them by their absolute paths, so a project that uses the package needs the same packages
# (`make deps`). What it builds needs none of them to run.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

function(causeway_install_package library program)
  # lld looks for a symbol in all archives, wherever they stand; GNU ld looks only in those to the right, and the
  # archives of the embedded compiler refer back to libcauseway.a.
  execute_process(COMMAND ${CAUSEWAY_LLVM_CONFIG} --bindir OUTPUT_VARIABLE lld_directory
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  target_link_options(${library} INTERFACE $<INSTALL_INTERFACE:-fuse-ld=lld> $<INSTALL_INTERFACE:-B${lld_directory}>)

  set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/causeway)
  install(TARGETS ${library} EXPORT causewayTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT causewayTargets NAMESPACE causeway:: DESTINATION ${package_directory})
  # What is installed is what is promised.
  set(list ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} headers REGEX "^causeway/")
  foreach(header ${headers})
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT headers)
  endforeach()

  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/causewayConfig.cmake.in
    ${CMAKE_BINARY_DIR}/causewayConfig.cmake INSTALL_DESTINATION ${package_directory})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/causewayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/causewayConfig.cmake ${CMAKE_BINARY_DIR}/causewayConfigVersion.cmake
    DESTINATION ${package_directory})

  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/causeway)
  # As they lie in the source, so that they find one another; tools/bundle.sh packs the same.
  foreach(document LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs)
    if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${document})
      install(DIRECTORY ${CMAKE_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
    else()
      install(FILES ${CMAKE_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
    endif()
  endforeach()
endfunction()
