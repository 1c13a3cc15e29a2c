cohort_add_unit_test(NAME report_chooser_test SOURCES unit/report_chooser_test.cpp
  LIBS cohort::report fmt::fmt)
