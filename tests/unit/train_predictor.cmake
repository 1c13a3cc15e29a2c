foreach(topic predictor refiner times)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train_${topic}_test.cpp
    LIBS cohort::train TIMEOUT 120)
  target_include_directories(train_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
endforeach()
