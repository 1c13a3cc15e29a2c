cohort_add_unit_tests(sim LIBS cohort::sim fmt::fmt TOPICS
  cluster/cluster cluster/event_queue cluster/fluid cluster/making_room
  fleet/arrivals fleet/fleet_compare fleet/fleet_file fleet/fleet_queue fleet/fleet_record
  fleet/job_needs fleet/room_review
  job/adaptive job/pace job/ring_job job/ring_modes job/servers_learning job/servers_load
  job/servers_modes job/servers_nodes job/servers_pace job/servers_shards job/servers_tree
  job/servers_waiting
  result/recorded_load result/result_file
  scenario/iteration_delays scenario/options scenario/oracle scenario/patterns scenario/trace)
target_compile_definitions(sim_result_file_test PRIVATE
  COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
# What a virtual run computes, on several threads.
cohort_add_unit_tests(sim LIBS cohort::sim fmt::fmt PROPERTIES PROCESSORS 2 TOPICS
  learner/learner learner/learner_evaluation learner/learner_local learner/learner_pool
  fleet/fleet_room fleet/fleet_run)
cohort_add_unit_test(NAME sim_fluid_random_test
  SOURCES unit/sim/cluster/fluid_random_test.cpp unit/sim/cluster/slow_fluid.cpp
  LIBS cohort::sim)
