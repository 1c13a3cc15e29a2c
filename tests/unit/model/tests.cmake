cohort_add_unit_tests(model LIBS cohort_test_reference TOPICS executor random structure zoo)
cohort_add_unit_tests(model LIBS cohort_test_reference PROPERTIES TIMEOUT 1800 PROCESSORS 2 TOPICS
  text_zoo zoo_reference)
cohort_test_other_kernels(model_random_test)
