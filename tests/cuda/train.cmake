# Tests of the CUDA backend: jobs on GPUs. None of these needs one: they run the same code with the
# CPU's memory, or with streams that work when they are told.
foreach(topic copies observer place server)
  cohort_add_unit_test(NAME train_gpu_${topic}_test SOURCES unit/train_gpu_${topic}_test.cpp
    LIBS cohort::train fmt::fmt TIMEOUT 120)
  target_include_directories(train_gpu_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
endforeach()

# Workers on every backend; of GPUs it is skipped where there is none.
cohort_add_backend_test(NAME train_gpu_jobs_test SOURCES unit/train_gpu_jobs_test.cpp
  LIBS cohort::train fmt::fmt)
target_include_directories(train_gpu_jobs_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)

# A limit on the address space leaves a sanitizer no room.
if(NOT COHORT_SANITIZE)
  add_test(NAME cli_gpu_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_gpu_test.py $<TARGET_FILE:cohort>)
  cohort_test_properties(cli_gpu_test TIMEOUT 240)
endif()
