foreach(topic predictor_file oracle recorded_load)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt)
  target_include_directories(sim_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/sim)
endforeach()
