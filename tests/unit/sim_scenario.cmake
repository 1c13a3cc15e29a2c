foreach(topic patterns iteration_delays trace profile)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt)
endforeach()
cohort_add_unit_test(NAME train_trace_test SOURCES unit/train_trace_test.cpp
  LIBS cohort::train fmt::fmt)
target_include_directories(train_trace_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
