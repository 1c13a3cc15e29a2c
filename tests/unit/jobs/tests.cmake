cohort_add_unit_tests(jobs LIBS cohort_program TOPICS command_line stop_signal)

