# The program from outside.
set(tools ${CMAKE_CURRENT_SOURCE_DIR}/tools)
foreach(test bad_input_test cli_test cli_stop_test cli_quickstart_test cli_simulate_test
    cli_space_test cli_writers_test)
  add_test(NAME ${test} COMMAND Python3::Interpreter ${tools}/${test}.py $<TARGET_FILE:cohort>)
  cohort_test_properties(${test} TIMEOUT 240)
endforeach()
add_test(NAME options_documented COMMAND Python3::Interpreter ${tools}/check_options.py
  ${PROJECT_SOURCE_DIR} $<TARGET_FILE:cohort>)
add_test(NAME options_documented_self_test
  COMMAND Python3::Interpreter ${tools}/check_options.py --self-test)
foreach(test options_documented options_documented_self_test)
  cohort_test_properties(${test})
endforeach()
