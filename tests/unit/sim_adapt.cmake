cohort_add_unit_test(NAME sim_adaptive_test SOURCES unit/sim_adaptive_test.cpp
  LIBS cohort::sim fmt::fmt)
