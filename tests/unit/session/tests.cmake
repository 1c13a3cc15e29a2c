foreach(topic gradient_statistics lease_dispatcher load_monitor mode_controller server_scheduler ring)
  cohort_add_unit_test(NAME session_${topic}_test SOURCES unit/session/${topic}_test.cpp
    LIBS cohort::session fmt::fmt)
endforeach()
