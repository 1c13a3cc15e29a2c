# Some tests look at the module's private parts.
foreach(topic options hooks desks servers_desks modes control files window run node server_line server_loop server_math server_shard checkpoint evaluation run_folder run_space)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train_${topic}_test.cpp
    LIBS cohort::train nlohmann_json::nlohmann_json fmt::fmt TIMEOUT 120)
  target_include_directories(train_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
endforeach()
cohort_add_unit_test(NAME train_flow_servers_test
  SOURCES unit/train_flow_servers_test.cpp support/flow_rig.cpp
  LIBS cohort::train fmt::fmt TIMEOUT 120)
target_include_directories(train_flow_servers_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
