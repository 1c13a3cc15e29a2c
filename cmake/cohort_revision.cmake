# Writes generated/cohort_revision.hpp at every build, touching it only when something changed.
add_custom_target(cohort_revision
  COMMAND ${CMAKE_COMMAND}
    -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/generated/cohort_revision.hpp
    -DVERSION=${PROJECT_VERSION} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
    -P ${PROJECT_SOURCE_DIR}/cmake/write_revision.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/cohort_revision.hpp
  VERBATIM)
