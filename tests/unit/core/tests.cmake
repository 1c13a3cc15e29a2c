cohort_add_unit_tests(core LIBS cohort::core TOPICS
  bf16 error launch_env limits load_probe output process_usage rng run_lock scores statistics suggestion thread_team units)
