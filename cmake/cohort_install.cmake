# `cmake --install` puts down the program, the libraries, the public headers and a package that
# find_package(cohort) finds. tests/consumer is a project that uses it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
get_property(modules GLOBAL PROPERTY COHORT_MODULES)

install(TARGETS ${modules} EXPORT cohort-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/cohort DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT cohort-targets NAMESPACE cohort:: DESTINATION ${package_dir})
if(TARGET cohort)
  install(TARGETS cohort RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/cohort-config.cmake.in
  ${PROJECT_BINARY_DIR}/cohort-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/cohort-config.cmake
  ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  cmake/cohort_link_dependencies.cmake
  DESTINATION ${package_dir})
