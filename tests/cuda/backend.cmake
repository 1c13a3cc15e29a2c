# Tests of the CUDA backend: the backend against the CPU and the double-precision reference.

option(COHORT_GPU_REQUIRED "Tests that find no GPU fail instead of being skipped" OFF)

# What tests that run on every backend share.
add_library(cohort_test_gpu STATIC support/gpu_backend.cpp support/gpu_cases.cpp)
target_link_libraries(cohort_test_gpu PUBLIC cohort_test_reference PRIVATE cohort_build_settings)
set_target_properties(cohort_test_gpu PROPERTIES CXX_EXTENSIONS OFF)
if(COHORT_GPU_REQUIRED)
  target_compile_definitions(cohort_test_gpu PRIVATE COHORT_GPU_REQUIRED)
endif()

# cohort_add_backend_test(NAME gpu_layers_test SOURCES gpu/layers_test.cpp [LIBS ...]
#                         [BACKENDS cpu cuda_f32 ...] [TIMEOUT 300])
#
# One GoogleTest executable and one ctest entry per backend, whose tests have its name in theirs.
# Entries of GPUs have the label gpu; ctest says "Skipped" where there is none.
function(cohort_add_backend_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBS;BACKENDS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES)
    message(FATAL_ERROR "cohort_add_backend_test: wrong arguments: ${ARGN}")
  endif()
  if(NOT ARG_BACKENDS)
    set(ARG_BACKENDS cpu cuda_f32 cuda_tf32 cuda_bf16 cuda_f16)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE
    cohort_test_gpu ${ARG_LIBS} GTest::gtest_main cohort_build_settings)
  set_target_properties(${ARG_NAME} PROPERTIES CXX_EXTENSIONS OFF)
  foreach(backend IN LISTS ARG_BACKENDS)
    add_test(NAME ${ARG_NAME}_${backend}
      COMMAND ${ARG_NAME} --gtest_filter=*/${backend}_*:*/${backend})
    set(label fast)
    if(NOT backend STREQUAL "cpu")
      set(label gpu)
    endif()
    cohort_test_properties(${ARG_NAME}_${backend} TIMEOUT ${ARG_TIMEOUT} LABELS ${label})
    if(NOT backend STREQUAL "cpu")
      set_tests_properties(${ARG_NAME}_${backend} PROPERTIES
        SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
    endif()
  endforeach()
endfunction()

foreach(topic exact layers replica trouble)
  cohort_add_backend_test(NAME gpu_${topic}_test SOURCES gpu/${topic}_test.cpp)
endforeach()
cohort_add_backend_test(NAME gpu_networks_test SOURCES gpu/networks_test.cpp LIBS cohort::optim)
# Without a precision of its own.
foreach(topic device optim)
  cohort_add_backend_test(NAME gpu_${topic}_test SOURCES gpu/${topic}_test.cpp LIBS cohort::optim
    BACKENDS cpu cuda_f32)
endforeach()

# No GPU needed.
cohort_add_unit_test(NAME gpu_tolerance_test SOURCES gpu/tolerance_test.cpp LIBS cohort_test_gpu)
