# The double-precision reference that the engine's tests compare with.
add_library(cohort_test_reference STATIC
  support/layers/reference_check.cpp
  support/layers/reference_joints.cpp
  support/layers/reference_layers.cpp
  support/layers/reference_network.cpp
  support/layers/reference_random.cpp
  support/layers/reference_sequence.cpp
  support/layers/reference_structures.cpp
  support/layers/reference_text.cpp)
target_include_directories(cohort_test_reference PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(cohort_test_reference
  PUBLIC cohort::model GTest::gtest PRIVATE cohort_build_settings)
set_target_properties(cohort_test_reference PROPERTIES CXX_EXTENSIONS OFF)

cohort_add_unit_tests(layers LIBS cohort_test_gpu TOPICS conv conv_algorithm reference sequence text window winograd)
cohort_test_other_kernels(layers_conv_test)
cohort_test_other_kernels(layers_conv_algorithm_test)
cohort_test_other_kernels(layers_sequence_test)
cohort_test_other_kernels(layers_text_test)
cohort_test_other_kernels(layers_window_test)
