cohort_add_unit_test(NAME sim_adaptive_test SOURCES unit/sim/adaptive_test.cpp
  LIBS cohort::sim fmt::fmt)
foreach(topic event_queue fluid cluster)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim/${topic}_test.cpp
    LIBS cohort::sim)
endforeach()
cohort_add_unit_test(NAME sim_fluid_random_test
  SOURCES unit/sim/fluid_random_test.cpp unit/sim/slow_fluid.cpp
  LIBS cohort::sim TIMEOUT 120)
# What a virtual run computes: looks at the module's private parts too.
foreach(topic learner learner_local learner_pool)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim/${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120 PROCESSORS 2)
endforeach()
cohort_add_unit_test(NAME sim_pace_test SOURCES unit/sim/pace_test.cpp
  LIBS cohort::sim fmt::fmt TIMEOUT 120)
foreach(topic predictor_file oracle recorded_load)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim/${topic}_test.cpp
    LIBS cohort::sim fmt::fmt)
endforeach()
cohort_add_unit_test(NAME sim_result_file_test SOURCES unit/sim/result_file_test.cpp
  LIBS cohort::sim fmt::fmt)
target_compile_definitions(sim_result_file_test PRIVATE
  COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
cohort_add_unit_test(NAME sim_options_test SOURCES unit/sim/options_test.cpp LIBS cohort::sim)
foreach(topic job modes)
  cohort_add_unit_test(NAME sim_ring_${topic}_test SOURCES unit/sim/ring_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120)
endforeach()
foreach(topic patterns iteration_delays trace profile)
  cohort_add_unit_test(NAME sim_${topic}_test SOURCES unit/sim/${topic}_test.cpp
    LIBS cohort::sim fmt::fmt)
endforeach()
cohort_add_unit_test(NAME train_trace_test SOURCES unit/train/trace_test.cpp
  LIBS cohort::train fmt::fmt)
foreach(topic pace waiting nodes modes learning load)
  cohort_add_unit_test(NAME sim_servers_${topic}_test SOURCES unit/sim/servers_${topic}_test.cpp
    LIBS cohort::sim fmt::fmt TIMEOUT 120)
endforeach()
foreach(topic learning load)
endforeach()
