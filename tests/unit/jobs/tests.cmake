cohort_add_unit_tests(jobs LIBS cohort_program TOPICS command_line resume_command stop_signal)

