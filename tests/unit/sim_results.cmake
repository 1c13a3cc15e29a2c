cohort_add_unit_test(NAME sim_result_file_test SOURCES unit/sim_result_file_test.cpp
  LIBS cohort::sim fmt::fmt)
target_compile_definitions(sim_result_file_test PRIVATE
  COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
cohort_add_unit_test(NAME sim_options_test SOURCES unit/sim_options_test.cpp LIBS cohort::sim)
