foreach(topic error launch_env limits output process_usage rng statistics thread_team units)
  cohort_add_unit_test(NAME core_${topic}_test SOURCES unit/core/${topic}_test.cpp
    LIBS cohort::core)
endforeach()
cohort_add_unit_test(NAME core_load_probe_test SOURCES unit/core/load_probe_test.cpp
  LIBS cohort::core)
