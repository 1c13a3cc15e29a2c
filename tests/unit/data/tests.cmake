foreach(topic dataset dataset_h5py hdf5_thread import import_folder store)
  cohort_add_unit_test(NAME data_${topic}_test SOURCES unit/data/${topic}_test.cpp
    LIBS cohort::data)
endforeach()
foreach(topic dataset_h5py import)
  target_compile_definitions(data_${topic}_test PRIVATE
    COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
endforeach()
foreach(topic import import_folder)
  target_link_libraries(data_${topic}_test PRIVATE ZLIB::ZLIB)
endforeach()
foreach(topic augment lease loader order slice_reader text_file)
  cohort_add_unit_test(NAME data_${topic}_test SOURCES unit/data/${topic}_test.cpp
    LIBS cohort::data)
endforeach()
# Looks at the module's private parts.
cohort_add_unit_test(NAME data_child_trial_test SOURCES unit/data/child_trial_test.cpp
  LIBS cohort::data)
