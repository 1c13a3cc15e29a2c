cohort_add_unit_test(NAME train_predictor_scores_test
  SOURCES unit/train_predictor_scores_test.cpp LIBS cohort::train)
