cohort_add_unit_test(NAME sim_pace_test SOURCES unit/sim_pace_test.cpp
  LIBS cohort::sim fmt::fmt TIMEOUT 120)
