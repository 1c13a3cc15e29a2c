# What real ranks measure for predictors and choosers.
add_test(NAME cli_measured_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_measured_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_measured_test LABELS mpi TIMEOUT 240 PROCESSORS 2)
set_tests_properties(cli_measured_test PROPERTIES RUN_SERIAL TRUE)
