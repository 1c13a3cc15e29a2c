# What virtual runs learn, against ranks that train.
add_executable(learner_reference ${CMAKE_CURRENT_SOURCE_DIR}/support/learner_reference.cpp)
target_link_libraries(learner_reference PRIVATE
  cohort::train CLI11::CLI11 cohort_build_settings)
add_test(NAME cli_learner_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_learner_test.py
    $<TARGET_FILE:cohort> $<TARGET_FILE:learner_reference> ${MPIEXEC_EXECUTABLE}
    ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_learner_test LABELS mpi TIMEOUT 240 PROCESSORS 2)

# What cohort profile measures.
add_test(NAME cli_profile_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_profile_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(cli_profile_test TIMEOUT 240 PROCESSORS 2)
