# The double-precision reference that the engine's tests compare with.
add_library(cohort_test_reference STATIC
  support/layers/reference_check.cpp
  support/layers/reference_joints.cpp
  support/layers/reference_layers.cpp
  support/layers/reference_network.cpp
  support/layers/reference_random.cpp
  support/layers/reference_sequence.cpp
  support/layers/reference_structures.cpp)
target_include_directories(cohort_test_reference PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(cohort_test_reference
  PUBLIC cohort::model GTest::gtest PRIVATE cohort_build_settings)
set_target_properties(cohort_test_reference PROPERTIES CXX_EXTENSIONS OFF)

cohort_add_unit_tests(layers LIBS cohort_test_reference TOPICS conv dense reference sequence)

# Machines without AVX-512 have other kernels and other memory orders (blocks of 8, or none).
foreach(test layers_conv_test layers_dense_test layers_sequence_test)
  foreach(isa AVX2 SSE41)
    string(TOLOWER ${test}_${isa} name)
    add_test(NAME ${name}
      COMMAND ${CMAKE_COMMAND} -E env ONEDNN_MAX_CPU_ISA=${isa} $<TARGET_FILE:${test}>)
    cohort_test_properties(${name})
  endforeach()
endforeach()
