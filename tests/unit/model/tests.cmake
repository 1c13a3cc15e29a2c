cohort_add_unit_tests(model LIBS cohort_test_reference TOPICS executor implementations random slow_layers
  structure zoo)
cohort_add_unit_tests(model LIBS cohort_test_reference PROPERTIES PROCESSORS 2 TIMEOUT 1800 TOPICS
  text_zoo zoo_reference)
foreach(topic implementations random)
  cohort_test_every_level(model_${topic}_test)
endforeach()
