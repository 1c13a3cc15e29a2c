# Tests of the CUDA backend: convolution, batch norm, pooling, layouts.

# cohort_cuda_on_cpu(OUT FILE.cu...)
#
# Adds to the list `OUT` a C++ file for each of these CUDA files, in which kernels run on the CPU
# (see support/gpu/cuda_on_cpu.hpp).
function(cohort_cuda_on_cpu out)
  set(made)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    set(target ${CMAKE_CURRENT_BINARY_DIR}/on_cpu/${name}.cpp)
    add_custom_command(OUTPUT ${target}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/on_cpu
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/tools/cuda_on_cpu.py
        ${target} ${PROJECT_SOURCE_DIR}/${file}
      DEPENDS ${PROJECT_SOURCE_DIR}/tests/tools/cuda_on_cpu.py ${PROJECT_SOURCE_DIR}/${file})
    set_source_files_properties(${target} PROPERTIES COMPILE_OPTIONS "-w;-O1")  # nvcc warns
    list(APPEND made ${target})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()

foreach(topic layouts tuning)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda/${topic}_test.cpp
    LIBS cohort::layers)
endforeach()
if(COHORT_HAVE_CUDA)
  # cuDNN plans for GPUs that are only described.
  cohort_add_unit_test(NAME cuda_dnn_test SOURCES unit/cuda/dnn_test.cpp
    LIBS cohort::model)
  target_link_libraries(cuda_dnn_test PRIVATE cohort_cuda_headers)
  cohort_add_unit_test(NAME cuda_attention_plans_test SOURCES unit/cuda/attention_plans_test.cpp
    LIBS cohort::layers)
  target_link_libraries(cuda_attention_plans_test PRIVATE cohort_cuda_headers)
  target_compile_definitions(cuda_attention_plans_test PRIVATE
    COHORT_DRIVER_STUB="${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so")
  cohort_add_unit_test(NAME cuda_trials_test SOURCES unit/cuda/trials_test.cpp
    LIBS cohort::layers)
  target_link_libraries(cuda_trials_test PRIVATE cohort_cuda_headers)
endif()
# Sanitizers do not follow the switches between a block's threads.
if(COHORT_HAVE_CUDA AND Python3_EXECUTABLE AND NOT COHORT_SANITIZE)
  file(GLOB cuda_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/layers/cuda/kernels/*.cu ${PROJECT_SOURCE_DIR}/layers/optim/cuda/*.cu)
  cohort_cuda_on_cpu(on_cpu ${cuda_files})
  add_library(cohort_kernels_on_cpu OBJECT ${on_cpu})
  # The device, the CUDA runtime, cuDNN and cuBLASLt.
  add_library(cohort_gpu_on_cpu OBJECT gpu_on_cpu/blas.cpp gpu_on_cpu/device.cpp
    gpu_on_cpu/dnn.cpp gpu_on_cpu/dnn_fused.cpp gpu_on_cpu/library.cpp gpu_on_cpu/rnn.cpp)
  foreach(part kernels gpu)
    target_include_directories(cohort_${part}_on_cpu PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(cohort_${part}_on_cpu PRIVATE cohort_build_settings cohort_cuda_headers)
    set_target_properties(cohort_${part}_on_cpu PROPERTIES CXX_EXTENSIONS OFF)
  endforeach()

  # cohort_add_kernels_test(TOPIC): of kernels, one by one.
  function(cohort_add_kernels_test topic)
    set(name cuda_${topic}_kernels_test)
    cohort_add_unit_test(NAME ${name}
      SOURCES unit/cuda/${topic}_kernels_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      LIBS cohort::layers cohort::optim)
    target_link_libraries(${name} PRIVATE cohort_cuda_headers)
  endfunction()
  foreach(topic batch_norm conv depthwise pool)
    cohort_add_kernels_test(${topic})
  endforeach()

  cohort_add_unit_test(NAME cuda_dnn_plans_test
    SOURCES unit/cuda/dnn_plans_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      $<TARGET_OBJECTS:cohort_gpu_on_cpu>
    LIBS cohort::layers cohort::optim)
  target_link_libraries(cuda_dnn_plans_test PRIVATE cohort_cuda_headers)

  # The tests of backends with the CPU in a GPU's place: all of the backend but the GPU and its
  # libraries. Left out is what a GPU of loops takes minutes for.
  function(cohort_add_on_cpu_test topic filter)
    set(name gpu_${topic}_on_cpu_test)
    add_executable(${name} gpu/${topic}_test.cpp $<TARGET_OBJECTS:cohort_kernels_on_cpu>
      $<TARGET_OBJECTS:cohort_gpu_on_cpu>)
    target_link_libraries(${name} PRIVATE cohort_test_gpu cohort::optim GTest::gtest_main
      cohort_build_settings)
    set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
    add_test(NAME ${name} COMMAND ${name} --gtest_filter=${filter})
    cohort_test_properties(${name} TIMEOUT 1800 LABELS on_cpu)
  endfunction()
  cohort_add_on_cpu_test(layers
    "*cuda_f32*:Maps/*cuda_bf16*:Features/*cuda_bf16*:Texts/*cuda_bf16*:Structures/*cuda_f16*:-*conv_32x8x8*:*conv_33x8x7*:*conv_128x*:*conv_130x*:*cuda_bf16_attention_1100*")
  cohort_add_on_cpu_test(exact "*cuda_*:-*cuda_tf32*")
  cohort_add_on_cpu_test(input "*cuda_*")
  cohort_add_on_cpu_test(networks
    "*ImageModels*/cuda_f32_alexnet:*ImageModels*/cuda_f32_resnet20:*Inverted*/cuda_f32:*Inverted*/cuda_bf16")
  cohort_add_on_cpu_test(optim "*cuda*")
  cohort_add_on_cpu_test(replica
    "*Folds*/cuda_*:*Recorded*/cuda_f32:*SixtyBatchSizes*/cuda_bf16")
  cohort_add_on_cpu_test(text "*cuda_*:-*cuda_tf32*")

  if(COHORT_HAVE_NCCL)
    cohort_add_unit_test(NAME nccl_communicator_test
      SOURCES unit/nccl/communicator_test.cpp $<TARGET_OBJECTS:cohort_gpu_on_cpu>
      LIBS cohort::comm cohort_nccl_headers)
  endif()
endif()
