# `cmake --install` puts down two components. `program`: the program, its launcher, templates of jobs,
# manual pages, completion and documentation. `development`: the libraries, the public headers and
# a package that find_package(cohort) finds; tests/consumer is a project that uses it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
get_property(modules GLOBAL PROPERTY COHORT_MODULES)

install(TARGETS ${modules} EXPORT cohort-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/cohort DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp")
install(EXPORT cohort-targets NAMESPACE cohort:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/cohort-config.cmake.in
  ${PROJECT_BINARY_DIR}/cohort-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/cohort-config.cmake
  ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  cmake/cohort_link_dependencies.cmake
  DESTINATION ${package_dir} COMPONENT development)

# The launcher and the templates find each other as in the source tree.
set(share ${CMAKE_INSTALL_DATADIR}/cohort)
set(manuals ${PROJECT_BINARY_DIR}/manuals)
install(TARGETS cohort RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(PROGRAMS jobs/launch.sh DESTINATION ${share}/jobs COMPONENT program)
install(DIRECTORY jobs/launch DESTINATION ${share}/jobs COMPONENT program USE_SOURCE_PERMISSIONS)
install(DIRECTORY slurm DESTINATION ${share} COMPONENT program USE_SOURCE_PERMISSIONS)
install(FILES packaging/modulefile.tcl DESTINATION ${share}/modulefiles/cohort
  RENAME ${PROJECT_VERSION} COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
  PATTERN build EXCLUDE PATTERN __pycache__ EXCLUDE)
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} \"-DCOHORT=$<TARGET_FILE:cohort>\"
  \"-DLAUNCHER=${PROJECT_SOURCE_DIR}/jobs/launch.sh\" \"-DOUT=${manuals}\"
  -DVERSION=${PROJECT_VERSION} -P \"${PROJECT_SOURCE_DIR}/cmake/write_manuals.cmake\"
  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
install(FILES ${manuals}/cohort.1 ${manuals}/cohort-launch.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${manuals}/cohort.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME cohort COMPONENT program)
# Links among these, from one folder of the installation to another.
file(RELATIVE_PATH way ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/cohort/jobs/launch.sh)
file(MAKE_DIRECTORY ${manuals}/bin ${manuals}/completions)
file(CREATE_LINK ${way} ${manuals}/bin/cohort-launch SYMBOLIC)
file(CREATE_LINK cohort ${manuals}/completions/cohort-launch SYMBOLIC)
install(FILES ${manuals}/bin/cohort-launch DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES ${manuals}/completions/cohort-launch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)

include(cohort_package)
