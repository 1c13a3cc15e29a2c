# Tests of the CUDA backend: jobs on GPUs. None of these needs one: they run the same code with the
# CPU's memory, or with streams that work when they are told.
cohort_add_unit_tests(train LIBS cohort::train fmt::fmt TOPICS
  run/gpu_place server/gpu_server worker/gpu_copies worker/gpu_observer)
cohort_add_unit_test(NAME cuda_batch_staging_test SOURCES unit/cuda/batch_staging_test.cpp
  LIBS cohort_test_reference)

# Workers on every backend; of GPUs it is skipped where there is none.
cohort_add_backend_test(NAME train_gpu_jobs_test SOURCES unit/train/worker/gpu_jobs_test.cpp
  LIBS cohort::train fmt::fmt)
# With the CPU in a GPU's place, which one thread at a time may use: one worker.
if(TARGET cohort_gpu_on_cpu)
  add_executable(train_gpu_jobs_on_cpu_test unit/train/worker/gpu_jobs_test.cpp
    $<TARGET_OBJECTS:cohort_kernels_on_cpu> $<TARGET_OBJECTS:cohort_gpu_on_cpu>)
  target_link_libraries(train_gpu_jobs_on_cpu_test PRIVATE
    cohort_test_gpu cohort::train fmt::fmt GTest::gtest_main cohort_build_settings)
  set_target_properties(train_gpu_jobs_on_cpu_test PROPERTIES CXX_EXTENSIONS OFF)
  add_test(NAME train_gpu_jobs_on_cpu_test
    COMMAND train_gpu_jobs_on_cpu_test --gtest_filter=*/cuda_*:-*RingOfTwo*)
  cohort_test_properties(train_gpu_jobs_on_cpu_test LABELS on_cpu)

  # Which device is taken, on machines that are played.
  cohort_add_unit_test(NAME cuda_choice_test
    SOURCES unit/cuda/choice_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      $<TARGET_OBJECTS:cohort_gpu_on_cpu>
    LIBS cohort::train cohort::optim)

  # How batches come to the device.
  cohort_add_unit_test(NAME cuda_input_test
    SOURCES unit/cuda/input_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      $<TARGET_OBJECTS:cohort_gpu_on_cpu>
    LIBS cohort::train cohort::optim)
  target_link_libraries(cuda_input_test PRIVATE cohort_cuda_headers)

  # What a step asks of the device.
  cohort_add_unit_test(NAME cuda_step_work_test
    SOURCES unit/cuda/step_work_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      $<TARGET_OBJECTS:cohort_gpu_on_cpu>
    LIBS cohort::model cohort::optim)
  target_link_libraries(cuda_step_work_test PRIVATE cohort_cuda_headers)
endif()

# A limit on the address space leaves a sanitizer no room.
if(NOT COHORT_SANITIZE)
  add_test(NAME cli_gpu_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/gpu_test.py $<TARGET_FILE:cohort>)
  cohort_test_properties(cli_gpu_test)
endif()
