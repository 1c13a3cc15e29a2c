add_test(NAME server_exchange_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/server_exchange_test.py
    $<TARGET_FILE:cohort> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(server_exchange_test LABELS mpi PROCESSORS 2 TIMEOUT 240)
