foreach(topic pace waiting nodes modes learning load)
  cohort_add_unit_test(NAME sim_servers_${topic}_test SOURCES unit/sim_servers_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120)
endforeach()
foreach(topic learning load)
  target_include_directories(sim_servers_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/sim)
endforeach()
