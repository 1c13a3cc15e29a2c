foreach(topic plan modes policy rules ring_rules sums drops engine_schedule engine_membership engine_lag quorum)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
cohort_add_unit_test(NAME sched_engine_random_test
  SOURCES unit/sched/engine_random_test.cpp unit/sched/random_run.cpp
  LIBS cohort::sched fmt::fmt TIMEOUT 120)
foreach(topic adaptive choosing overdue own_times)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
foreach(topic predictors predictor_scores lstm)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
foreach(topic timing star_rules policy_star decisions)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
foreach(topic noise_scale efficiency)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
endforeach()
foreach(topic telemetry stragglers load_desk)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched/${topic}_test.cpp
    LIBS cohort::sched)
endforeach()
