foreach(topic executor random structure zoo)
  cohort_add_unit_test(NAME model_${topic}_test SOURCES unit/model_${topic}_test.cpp
    LIBS cohort_test_reference)
endforeach()
