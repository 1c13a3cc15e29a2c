foreach(topic command_line stop_signal)
  cohort_add_unit_test(NAME jobs_${topic}_test SOURCES unit/jobs/${topic}_test.cpp
    LIBS cohort_program)
endforeach()

add_test(NAME jobs_example_own_network COMMAND example_own_network)
cohort_test_properties(jobs_example_own_network)
