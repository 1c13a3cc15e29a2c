# The double-precision reference that the engine's tests compare with.
add_library(cohort_test_reference STATIC
  support/layers/reference_check.cpp
  support/layers/reference_joints.cpp
  support/layers/reference_kinks.cpp
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
cohort_compile_together(cohort_test_reference)

add_executable(with_level support/layers/with_level.cpp)
target_link_libraries(with_level PRIVATE cohort::tensor cohort_build_settings)
set_target_properties(with_level PROPERTIES CXX_EXTENSIONS OFF)

cohort_add_unit_tests(layers LIBS cohort_test_gpu TOPICS
  conv conv_algorithm level reference sequence text window winograd)
foreach(topic conv conv_algorithm sequence text window)
  cohort_test_every_level(layers_${topic}_test)
endforeach()
