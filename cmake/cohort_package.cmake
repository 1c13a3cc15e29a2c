# `cpack` in a build folder makes a Debian package of the component `program`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cohort)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "data-parallel training over MPI that tolerates slow workers")
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};cohort;program;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/packaging/debian/options.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/stage.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openssh-client)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "slurm-client, bash-completion")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Cohort trains neural networks data-parallel on many ranks, through parameter
servers or rings. It measures which workers are slow, in computing and in
communicating, and chooses who waits for whom so that the time to accuracy
stays low. The package has the program, its launcher, templates for Slurm and
the documentation.")
include(CPack)
