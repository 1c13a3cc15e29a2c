foreach(topic adaptive choosing overdue own_times)
  cohort_add_unit_test(NAME sched_${topic}_test SOURCES unit/sched_${topic}_test.cpp
    LIBS cohort::sched fmt::fmt)
  target_include_directories(sched_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/sched)
endforeach()
