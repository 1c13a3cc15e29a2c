# Data that must not be trained on, by one process and by many ranks.
add_test(NAME cli_data_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_data_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_data_test TIMEOUT 240 PROCESSORS 2)
