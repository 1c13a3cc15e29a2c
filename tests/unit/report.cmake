foreach(topic comparison experiment plan sweep)
  cohort_add_unit_test(NAME report_${topic}_test SOURCES unit/report_${topic}_test.cpp
    LIBS cohort::report fmt::fmt)
endforeach()
