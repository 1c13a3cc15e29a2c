# Tests of the CUDA backend: device, recordings, executor, NCCL rings.
foreach(topic executor plan)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda/${topic}_test.cpp
    LIBS cohort_test_reference)
endforeach()

# With stand-ins for GPU and NCCL, so that it runs everywhere.
cohort_add_mpi_test(NAME nccl_ring_test SOURCES mpi/nccl_ring_test.cpp
  LIBS cohort::comm MPI::MPI_C RANKS 1 2 4 LOSSES)
target_compile_definitions(nccl_ring_test PRIVATE OMPI_SKIP_MPICXX)

if(COHORT_HAVE_CUDA)
  # With a library of NVML's name that answers what the test wants.
  add_library(cohort_fake_nvml SHARED support/gpu/fake_nvml.cpp)
  target_include_directories(cohort_fake_nvml PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(cohort_fake_nvml PRIVATE cohort_build_settings)
  set_target_properties(cohort_fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_nvml)
  cohort_add_unit_test(NAME cuda_gpu_probe_test SOURCES unit/cuda/gpu_probe_test.cpp
    LIBS cohort::tensor ${CMAKE_DL_LIBS})
  add_dependencies(cuda_gpu_probe_test cohort_fake_nvml)
  set_property(TEST cuda_gpu_probe_test APPEND PROPERTY
    ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fake_nvml)
endif()

cohort_add_unit_test(NAME cuda_device_test SOURCES unit/cuda/device_test.cpp LIBS cohort::tensor)
if(COHORT_HAVE_NCCL)
  cohort_add_unit_test(NAME cuda_library_test SOURCES unit/cuda/library_test.cpp
    LIBS cohort::comm cohort_nccl_headers)
endif()
