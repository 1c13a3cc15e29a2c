# Tests of the CUDA backend: jobs on GPUs. None of these needs one: they run the same code with the
# CPU's memory, or with streams that work when they are told.
foreach(topic copies observer place server)
  cohort_add_unit_test(NAME train_gpu_${topic}_test SOURCES unit/train_gpu_${topic}_test.cpp
    LIBS cohort::train fmt::fmt TIMEOUT 120)
  target_include_directories(train_gpu_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
endforeach()
