# The double-precision reference that the engine's tests compare with.
add_library(cohort_test_reference STATIC
  support/reference_check.cpp
  support/reference_joints.cpp
  support/reference_layers.cpp
  support/reference_network.cpp
  support/reference_random.cpp
  support/reference_sequence.cpp
  support/reference_structures.cpp)
target_include_directories(cohort_test_reference PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(cohort_test_reference
  PUBLIC cohort::model GTest::gtest PRIVATE cohort_build_settings)
set_target_properties(cohort_test_reference PROPERTIES CXX_EXTENSIONS OFF)

foreach(topic conv dense reference sequence)
  cohort_add_unit_test(NAME layers_${topic}_test SOURCES unit/layers/${topic}_test.cpp
    LIBS cohort_test_reference)
endforeach()

# Machines without AVX-512 have other kernels and other memory orders (blocks of 8, or none).
foreach(test layers_conv_test layers_dense_test layers_sequence_test)
  foreach(isa AVX2 SSE41)
    string(TOLOWER ${test}_${isa} name)
    add_test(NAME ${name}
      COMMAND ${CMAKE_COMMAND} -E env ONEDNN_MAX_CPU_ISA=${isa} $<TARGET_FILE:${test}>)
    cohort_test_properties(${name})
  endforeach()
endforeach()
