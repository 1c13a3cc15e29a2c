# Patterns and traces from outside, and the trace of a real job.
add_test(NAME cli_trace_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_trace_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_trace_test LABELS mpi TIMEOUT 120 PROCESSORS 2)
set_tests_properties(cli_trace_test PROPERTIES RUN_SERIAL TRUE)
