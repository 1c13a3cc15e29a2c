# Tests of the CUDA backend: device, recordings, executor, NCCL rings.
foreach(topic executor plan)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda/${topic}_test.cpp
    LIBS cohort_test_reference)
endforeach()

# With stand-ins for GPU and NCCL, so that it runs everywhere.
cohort_add_mpi_test(NAME nccl_ring_test SOURCES mpi/nccl_ring_test.cpp
  LIBS cohort::comm MPI::MPI_C RANKS 1 2 4 TIMEOUT 120 LOSSES)
target_compile_definitions(nccl_ring_test PRIVATE OMPI_SKIP_MPICXX)

cohort_add_unit_test(NAME cuda_device_test SOURCES unit/cuda/device_test.cpp LIBS cohort::tensor)
if(COHORT_HAVE_NCCL)
  cohort_add_unit_test(NAME cuda_library_test SOURCES unit/cuda/library_test.cpp
    LIBS cohort::comm cohort_nccl_headers)
endif()
