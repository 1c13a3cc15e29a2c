cohort_add_mpi_test(NAME ring_sums_test SOURCES mpi/ring_sums_test.cpp LIBS cohort::comm
  RANKS 1 2 3 4 TIMEOUT 300)

add_executable(ring_wait_program mpi/ring_wait_program.cpp)
target_link_libraries(ring_wait_program PRIVATE cohort::comm cohort_build_settings)
set_target_properties(ring_wait_program PROPERTIES CXX_EXTENSIONS OFF)
add_test(NAME ring_wait_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/ring_wait_test.py
    $<TARGET_FILE:ring_wait_program> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(ring_wait_test LABELS mpi PROCESSORS 2 TIMEOUT 90)
