cohort_add_unit_test(NAME sched_adaptive_test SOURCES unit/sched_adaptive_test.cpp
  LIBS cohort::sched fmt::fmt)
target_include_directories(sched_adaptive_test PRIVATE ${PROJECT_SOURCE_DIR}/sched)
