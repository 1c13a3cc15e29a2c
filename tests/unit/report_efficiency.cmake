cohort_add_unit_test(NAME report_efficiency_test SOURCES unit/report_efficiency_test.cpp
  LIBS cohort::report fmt::fmt)
