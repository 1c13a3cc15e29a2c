cohort_add_unit_test(NAME train_load_test SOURCES unit/train_load_test.cpp LIBS cohort::train)
target_include_directories(train_load_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
