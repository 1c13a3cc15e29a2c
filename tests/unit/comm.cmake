foreach(topic operations rank_map)
  cohort_add_unit_test(NAME comm_${topic}_test SOURCES unit/comm_${topic}_test.cpp
    LIBS cohort::comm)
endforeach()
cohort_add_unit_test(NAME comm_alone_test SOURCES unit/comm_alone_test.cpp LIBS cohort::comm)
cohort_add_unit_test(NAME comm_leftovers_test SOURCES unit/comm_leftovers_test.cpp LIBS cohort::comm)
target_include_directories(comm_leftovers_test PRIVATE ${PROJECT_SOURCE_DIR}/comm)
