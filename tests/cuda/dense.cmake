# Tests of the CUDA backend: products, elementwise layers, losses, optimizers. Those that need none
# of its headers are there in every build.
function(cohort_add_cuda_dense_test topic library folder)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda_${topic}_test.cpp LIBS ${library})
  target_include_directories(cuda_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/${folder})
endfunction()
cohort_add_cuda_dense_test(dropout cohort::core layers/cuda)
cohort_add_cuda_dense_test(optim cohort::optim src/optim)
if(COHORT_HAVE_CUDA)
  foreach(topic blas elements)
    cohort_add_cuda_dense_test(${topic} cohort::layers layers/cuda)
    target_include_directories(cuda_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/layers)
    target_link_libraries(cuda_${topic}_test PRIVATE cohort_cuda_headers)
  endforeach()
  # Loading the libraries takes its time on a cold file cache.
  cohort_test_properties(cuda_blas_test TIMEOUT 180)
endif()
# Kernels on the CPU: conv.cmake makes them where they can be run.
if(TARGET cohort_kernels_on_cpu)
  cohort_add_kernels_test(dense layers/cuda)
  cohort_add_kernels_test(reduce layers/cuda)
  cohort_add_kernels_test(update src/optim)
endif()
