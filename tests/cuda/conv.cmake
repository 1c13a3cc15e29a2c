# Tests of the CUDA backend: convolution, batch norm, pooling, layouts.

# cohort_cuda_on_cpu(OUT FILE.cu...)
#
# Adds to the list `OUT` a C++ file for each of these CUDA files, in which kernels run on the CPU
# (see support/cuda_on_cpu.hpp).
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
    set_source_files_properties(${target} PROPERTIES COMPILE_OPTIONS
      "-Wno-unknown-pragmas;-Wno-conversion;-Wno-maybe-uninitialized")
    list(APPEND made ${target})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()

foreach(topic layouts tuning)
  cohort_add_unit_test(NAME cuda_${topic}_test SOURCES unit/cuda_${topic}_test.cpp
    LIBS cohort::layers)
endforeach()
target_include_directories(cuda_layouts_test PRIVATE ${PROJECT_SOURCE_DIR}/layers/cuda)
target_include_directories(cuda_tuning_test PRIVATE ${PROJECT_SOURCE_DIR}/layers)
if(COHORT_HAVE_CUDA)
  # cuDNN plans for GPUs that are only described.
  cohort_add_unit_test(NAME cuda_dnn_test SOURCES unit/cuda_dnn_test.cpp
    LIBS cohort::model TIMEOUT 300)
  target_include_directories(cuda_dnn_test PRIVATE
    ${PROJECT_SOURCE_DIR}/layers ${PROJECT_SOURCE_DIR}/layers/cuda)
  target_link_libraries(cuda_dnn_test PRIVATE cohort_cuda_headers)
endif()
# Sanitizers do not follow the switches between a block's threads.
if(COHORT_HAVE_CUDA AND Python3_EXECUTABLE AND NOT COHORT_SANITIZE)
  cohort_cuda_on_cpu(on_cpu
    layers/cuda/batch_norm_kernels.cu layers/cuda/conv_kernels.cu
    layers/cuda/pool_kernels.cu layers/cuda/weight_copies.cu)
  cohort_add_unit_test(NAME cuda_channel_kernels_test
    SOURCES unit/cuda_channel_kernels_test.cpp ${on_cpu} LIBS cohort::tensor)
  target_include_directories(cuda_channel_kernels_test PRIVATE
    ${PROJECT_SOURCE_DIR}/layers/cuda)
  target_link_libraries(cuda_channel_kernels_test PRIVATE cohort_cuda_headers)
endif()
