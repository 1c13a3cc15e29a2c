foreach(topic plan modes policy rules ring_rules sums drops engine_schedule engine_membership engine_lag quorum)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched_${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
target_include_directories(sched_policy_test PRIVATE ${PROJECT_SOURCE_DIR}/sched)
cohort_add_unit_test(NAME sched_engine_random_test
  SOURCES unit/sched_engine_random_test.cpp unit/sched_random_run.cpp
  LIBS cohort::sched fmt::fmt TIMEOUT 120)
