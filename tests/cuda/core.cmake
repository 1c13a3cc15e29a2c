# Tests of the CUDA backend: device, recordings, executor, NCCL rings.
cohort_add_unit_test(NAME cuda_executor_test SOURCES unit/cuda_executor_test.cpp
  LIBS cohort_test_reference)
target_include_directories(cuda_executor_test PRIVATE ${PROJECT_SOURCE_DIR}/src/model)
