foreach(topic plan modes rules engine_schedule engine_membership engine_lag engine_random)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched_${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
