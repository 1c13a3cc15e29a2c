cohort_add_unit_tests(report LIBS cohort::report fmt::fmt TOPICS
  chooser comparison efficiency experiment fleet_page page plan run_log run_page sweep)
