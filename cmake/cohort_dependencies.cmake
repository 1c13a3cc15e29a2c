# Everything the project builds with, from Debian packages.
if(NOT COHORT_PARTS STREQUAL "engine")
  find_package(CLI11 CONFIG REQUIRED)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/cohort_link_dependencies.cmake)
