# Tests of the CUDA backend: products, elementwise layers, losses, optimizers. Those that need none
# of its headers are there in every build.
function(cohort_add_cuda_dense_test topic library)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda/${topic}_test.cpp LIBS ${library})
endfunction()
cohort_add_cuda_dense_test(dropout cohort::core)
cohort_add_cuda_dense_test(optim cohort::optim)
if(COHORT_HAVE_CUDA)
  foreach(topic blas elements)
    cohort_add_cuda_dense_test(${topic} cohort::layers)
    target_link_libraries(cuda_${topic}_test PRIVATE cohort_cuda_headers)
  endforeach()
  # Loading the libraries takes its time on a cold file cache.
  cohort_test_properties(cuda_blas_test TIMEOUT 180)
endif()
# Kernels on the CPU: conv.cmake makes them where they can be run.
if(TARGET cohort_kernels_on_cpu)
  cohort_add_kernels_test(dense)
  cohort_add_kernels_test(reduce)
  cohort_add_kernels_test(text)
  cohort_add_kernels_test(update)
  target_sources(cuda_update_kernels_test PRIVATE $<TARGET_OBJECTS:cohort_gpu_on_cpu>)
endif()
