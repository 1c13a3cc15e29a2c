cohort_add_unit_test(NAME core_load_probe_test SOURCES unit/core_load_probe_test.cpp
  LIBS cohort::core)
