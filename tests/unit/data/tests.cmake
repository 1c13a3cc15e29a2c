cohort_add_unit_tests(data LIBS cohort::data TOPICS
  augment child_trial dataset dataset_h5py hdf5_thread import import_folder import_images import_npz import_split lease loader order
  slice_reader store targets text_file token_set tokenizer)
foreach(topic dataset_h5py import import_npz)
  target_compile_definitions(data_${topic}_test PRIVATE
    COHORT_TEST_PYTHON="${Python3_EXECUTABLE}" COHORT_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
endforeach()
foreach(topic import import_folder import_images import_npz import_split targets token_set)
  target_link_libraries(data_${topic}_test PRIVATE ZLIB::ZLIB)
endforeach()
target_link_libraries(data_import_images_test PRIVATE PNG::PNG JPEG::JPEG)
target_link_libraries(data_import_split_test PRIVATE PNG::PNG)
target_link_libraries(data_tokenizer_test PRIVATE nlohmann_json::nlohmann_json)
