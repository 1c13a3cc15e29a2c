# Looks at the module's private parts.
cohort_add_unit_test(NAME comm_ring_test SOURCES unit/comm_ring_test.cpp LIBS cohort::comm)
target_include_directories(comm_ring_test PRIVATE ${PROJECT_SOURCE_DIR}/comm)
