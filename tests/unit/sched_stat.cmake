foreach(topic noise_scale efficiency)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched_${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
