foreach(topic dataset dataset_h5py hdf5_thread store)
  cohort_add_unit_test(NAME data_${topic}_test SOURCES unit/data_${topic}_test.cpp
    LIBS cohort::data)
endforeach()
target_compile_definitions(data_dataset_h5py_test PRIVATE
  COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
foreach(topic augment lease loader order)
  cohort_add_unit_test(NAME data_${topic}_test SOURCES unit/data_${topic}_test.cpp
    LIBS cohort::data)
endforeach()
