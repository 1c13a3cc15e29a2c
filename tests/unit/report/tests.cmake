foreach(topic comparison experiment page plan sweep)
  cohort_add_unit_test(NAME report_${topic}_test SOURCES unit/report/${topic}_test.cpp
    LIBS cohort::report fmt::fmt)
endforeach()
add_test(NAME cli_sweep_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_sweep_test.py $<TARGET_FILE:cohort>)
cohort_test_properties(cli_sweep_test TIMEOUT 240 PROCESSORS 2)
cohort_add_unit_test(NAME report_chooser_test SOURCES unit/report/chooser_test.cpp
  LIBS cohort::report fmt::fmt)
cohort_add_unit_test(NAME report_efficiency_test SOURCES unit/report/efficiency_test.cpp
  LIBS cohort::report fmt::fmt)
