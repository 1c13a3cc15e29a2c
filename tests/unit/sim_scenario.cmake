foreach(topic patterns trace profile)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt)
endforeach()
