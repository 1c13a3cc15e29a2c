# Writes generated/cohort_revision.hpp at every build, touching it only when something changed.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}" compiler_flags)
if(COHORT_SANITIZE)
  string(APPEND compiler_flags " -fsanitize=${COHORT_SANITIZE}")
endif()
string(REPLACE "\"" "'" compiler_flags "${compiler_flags}")
add_custom_target(cohort_revision
  COMMAND ${CMAKE_COMMAND}
    -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/generated/cohort_revision.hpp
    -DVERSION=${PROJECT_VERSION} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
    "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${compiler_flags}"
    -P ${PROJECT_SOURCE_DIR}/cmake/write_revision.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/cohort_revision.hpp
  VERBATIM)
