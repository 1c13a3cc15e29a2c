foreach(topic event_queue fluid cluster)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim_${topic}_test.cpp
    LIBS cohort::sim)
endforeach()
cohort_add_unit_test(NAME sim_fluid_random_test
  SOURCES unit/sim_fluid_random_test.cpp unit/sim_slow_fluid.cpp
  LIBS cohort::sim TIMEOUT 120)
