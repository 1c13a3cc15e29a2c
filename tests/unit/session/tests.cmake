cohort_add_unit_test(NAME session_ring_test SOURCES unit/session/ring_test.cpp LIBS cohort::session)
