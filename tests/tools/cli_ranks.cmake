# Training on many ranks from outside, against one process.
add_executable(micro_batch_reference ${CMAKE_CURRENT_SOURCE_DIR}/support/micro_batch_reference.cpp)
target_link_libraries(micro_batch_reference PRIVATE
  cohort::train CLI11::CLI11 cohort_build_settings)
# No contraction: sums must be those of the library.
target_compile_options(micro_batch_reference PRIVATE -ffp-contract=off)
add_test(NAME cli_ranks_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_ranks_test.py
    $<TARGET_FILE:cohort> $<TARGET_FILE:micro_batch_reference> ${MPIEXEC_EXECUTABLE}
    ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_ranks_test TIMEOUT 300 PROCESSORS 2)

# Modes that change, workers that leave.
add_test(NAME cli_modes_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_modes_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_modes_test LABELS mpi fault TIMEOUT 300 PROCESSORS 2)
set_tests_properties(cli_modes_test PROPERTIES RUN_SERIAL TRUE)

# Gradients that are summed on a host before they are sent.
add_test(NAME cli_nodes_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_nodes_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_nodes_test LABELS mpi fault TIMEOUT 400 PROCESSORS 2)
set_tests_properties(cli_nodes_test PROPERTIES RUN_SERIAL TRUE)
