# What a virtual run computes: looks at the module's private parts too.
foreach(topic learner learner_local learner_pool)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120 PROCESSORS 2)
  target_include_directories(sim_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/sim)
endforeach()
