foreach(topic arena flat_layout shape)
  cohort_add_unit_test(NAME tensor_${topic}_test SOURCES unit/tensor/${topic}_test.cpp
    LIBS cohort::tensor)
endforeach()
