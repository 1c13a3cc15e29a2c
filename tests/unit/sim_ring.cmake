foreach(topic job modes)
  cohort_add_unit_test(NAME sim_ring_${topic}_test SOURCES unit/sim_ring_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120)
  target_include_directories(sim_ring_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/sim)
endforeach()
