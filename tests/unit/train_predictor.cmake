cohort_add_unit_test(NAME train_predictor_test SOURCES unit/train_predictor_test.cpp
  LIBS cohort::train TIMEOUT 120)
target_include_directories(train_predictor_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
