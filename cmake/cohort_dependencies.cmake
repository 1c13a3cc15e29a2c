# Everything the project builds with, from Debian packages.
find_package(CLI11 CONFIG REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/cohort_link_dependencies.cmake)
