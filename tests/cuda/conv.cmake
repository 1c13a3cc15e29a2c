# Tests of the CUDA backend: convolution, batch norm, pooling, layouts.
foreach(topic layouts tuning)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda_${topic}_test.cpp
    LIBS cohort::layers)
endforeach()
target_include_directories(cuda_layouts_test PRIVATE ${PROJECT_SOURCE_DIR}/layers/cuda)
target_include_directories(cuda_tuning_test PRIVATE ${PROJECT_SOURCE_DIR}/layers)
if(COHORT_HAVE_CUDA)
  # cuDNN plans for GPUs that are only described.
  cohort_add_unit_test(NAME cuda_dnn_test SOURCES unit/cuda_dnn_test.cpp
    LIBS cohort::model TIMEOUT 300)
  target_include_directories(cuda_dnn_test PRIVATE
    ${PROJECT_SOURCE_DIR}/layers ${PROJECT_SOURCE_DIR}/layers/cuda)
  target_link_libraries(cuda_dnn_test PRIVATE cohort_cuda_headers)
endif()
