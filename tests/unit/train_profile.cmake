cohort_add_unit_test(NAME train_profile_test SOURCES unit/train_profile_test.cpp
  LIBS cohort::train TIMEOUT 120)
