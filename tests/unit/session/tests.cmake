cohort_add_unit_tests(session LIBS cohort::session fmt::fmt TOPICS
  failed_samples gradient_statistics lease_dispatcher load_monitor mode_controller ring server_scheduler)
