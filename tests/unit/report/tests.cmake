cohort_add_unit_tests(report LIBS cohort::report fmt::fmt TOPICS
  chooser comparison experiment fleet_page plan run_log run_page sweep)
cohort_add_unit_tests(report LIBS cohort::report fmt::fmt PROPERTIES TIMEOUT 1800 TOPICS page)
