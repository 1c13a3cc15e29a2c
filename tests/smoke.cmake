# What `tests/run.sh` builds and runs without options: as much of the program as ten minutes on two
# cores allow, of which building takes eight. Real jobs on real data that lose a worker; layers
# against their double-precision twins; sums over ranks; the engine of modes against a slow one that
# is plainly right; modes that change, runs that are stopped and go on, virtual runs, reports. Its
# entries have the label `smoke` beside their own.
set(smoke_programs gpu_layers_test ring_sums_test sched_engine_random_test)
set(smoke_entries
  cli_models_fashion_mnist_test cli_modes_test cli_report_runs_test cli_simulate_test cli_stop_test
  cli_train_test gpu_layers_test_cpu ring_sums_test_4 sched_engine_random_test)
foreach(entry IN LISTS smoke_entries)
  set_property(TEST ${entry} APPEND PROPERTY LABELS smoke)
endforeach()
add_custom_target(smoke_tests DEPENDS cohort ${smoke_programs})
