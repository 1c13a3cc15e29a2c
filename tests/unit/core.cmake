foreach(topic error launch_env limits output process_usage rng statistics thread_team units)
  cohort_add_unit_test(NAME core_${topic}_test SOURCES unit/core_${topic}_test.cpp
    LIBS cohort::core)
endforeach()
