# What a job says of its workers' load.
add_test(NAME cli_load_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_load_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_load_test LABELS mpi fault TIMEOUT 300 PROCESSORS 2)
set_tests_properties(cli_load_test PROPERTIES RUN_SERIAL TRUE)
