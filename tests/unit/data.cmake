foreach(topic hdf5_thread store)
  cohort_add_unit_test(NAME data_${topic}_test SOURCES unit/data_${topic}_test.cpp
    LIBS cohort::data)
endforeach()
