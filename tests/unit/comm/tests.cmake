foreach(topic operations rank_map)
  cohort_add_unit_test(NAME comm_${topic}_test SOURCES unit/comm/${topic}_test.cpp
    LIBS cohort::comm)
endforeach()
cohort_add_unit_test(NAME comm_alone_test SOURCES unit/comm/alone_test.cpp LIBS cohort::comm)
cohort_add_unit_test(NAME comm_leftovers_test SOURCES unit/comm/leftovers_test.cpp LIBS cohort::comm)
# Looks at the module's private parts.
cohort_add_unit_test(NAME comm_ring_test SOURCES unit/comm/ring_test.cpp LIBS cohort::comm)
