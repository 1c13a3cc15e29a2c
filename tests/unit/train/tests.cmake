# Some tests look at the module's private parts.
foreach(topic options hooks desks servers_desks modes control files window run node server_line server_loop server_math server_shard checkpoint evaluation run_folder run_space)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train/${topic}_test.cpp
    LIBS cohort::train nlohmann_json::nlohmann_json fmt::fmt TIMEOUT 120)
endforeach()
cohort_add_unit_test(NAME train_flow_servers_test
  SOURCES unit/train/flow_servers_test.cpp support/flow_rig.cpp
  LIBS cohort::train fmt::fmt TIMEOUT 120)
foreach(topic predictor refiner times)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train/${topic}_test.cpp
    LIBS cohort::train TIMEOUT 120)
endforeach()
cohort_add_unit_test(NAME train_predictor_scores_test
  SOURCES unit/train/predictor_scores_test.cpp LIBS cohort::train)
cohort_add_unit_test(NAME train_profile_test SOURCES unit/train/profile_test.cpp
  LIBS cohort::train TIMEOUT 120)
cohort_add_unit_test(NAME train_load_test SOURCES unit/train/load_test.cpp LIBS cohort::train)
# Workers, on threads of one process.
foreach(topic inject local_steps ring_flow ring_losses sleep_compute worker_orders worker_push worker_ring worker_servers)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train/${topic}_test.cpp
    LIBS cohort::train fmt::fmt TIMEOUT 120)
endforeach()
