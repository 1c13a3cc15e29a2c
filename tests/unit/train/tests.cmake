cohort_add_unit_tests(train LIBS cohort::train nlohmann_json::nlohmann_json fmt::fmt
  TOPICS
  bench/profile
  coordinator/control coordinator/desks coordinator/evaluation coordinator/modes coordinator/node
  coordinator/node_tree coordinator/parameter_routes
  coordinator/refiner coordinator/ring_driver coordinator/ring_losses coordinator/ring_succession
  coordinator/servers_desks
  faults/inject
  fit/predictor fit/predictor_scores
  hooks/hooks hooks/metrics_server hooks/observe hooks/record_limit hooks/trace hooks/window
  live/follower live/view
  mirror/mirrors
  protocol/sparse_rows
  run/checkpoint run/files run/job_context run/options run/own_network run/run run/run_folder run/run_space
  server/server_line server/server_loop server/server_math server/server_shard server/server_wire
  worker/error_feedback worker/load worker/local_steps worker/sleep_compute worker/times
  worker/worker_orders worker/worker_push worker/worker_ring worker/worker_servers)
cohort_add_unit_test(NAME train_servers_driver_test
  SOURCES unit/train/coordinator/servers_driver_test.cpp support/train/flow_rig.cpp
  LIBS cohort::train fmt::fmt)
