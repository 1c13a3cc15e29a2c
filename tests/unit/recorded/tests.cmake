cohort_add_unit_tests(recorded LIBS cohort::recorded cohort::model TOPICS predictor_file profile)
