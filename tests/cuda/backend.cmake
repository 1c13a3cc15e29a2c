# Tests of the CUDA backend: the backend against the CPU and the double-precision reference.

option(COHORT_GPU_REQUIRED "Tests that find no GPU fail instead of being skipped" OFF)

# What tests that run on every backend share.
add_library(cohort_test_gpu STATIC
  support/gpu/gpu_backend.cpp support/gpu/gpu_cases.cpp support/gpu/text_cases.cpp)
target_link_libraries(cohort_test_gpu PUBLIC cohort_test_reference PRIVATE cohort_build_settings)
set_target_properties(cohort_test_gpu PROPERTIES CXX_EXTENSIONS OFF)
cohort_compile_together(cohort_test_gpu)
if(COHORT_GPU_REQUIRED)
  target_compile_definitions(cohort_test_gpu PRIVATE COHORT_GPU_REQUIRED)
endif()

# All that tests/gpu/pack.sh packs, but the whole program.
add_custom_target(gpu_suite)

# cohort_add_backend_test(NAME gpu_layers_test SOURCES gpu/layers_test.cpp [LIBS ...]
#                         [BACKENDS cpu cuda_f32 ...] [ALONE])
#
# One GoogleTest executable and one ctest entry per backend, whose tests have its name in theirs.
# Entries of GPUs have the label gpu; ctest says "Skipped" where there is none. ALONE: what it finds
# out about memory would not hold beside others.
function(cohort_add_backend_test)
  cmake_parse_arguments(ARG "ALONE" "NAME" "SOURCES;LIBS;BACKENDS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES)
    message(FATAL_ERROR "cohort_add_backend_test: wrong arguments: ${ARGN}")
  endif()
  if(NOT ARG_BACKENDS)
    set(ARG_BACKENDS cpu cpu_bf16 cuda_f32 cuda_tf32 cuda_bf16 cuda_f16)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE
    cohort_test_gpu ${ARG_LIBS} GTest::gtest_main cohort_build_settings)
  set_target_properties(${ARG_NAME} PROPERTIES CXX_EXTENSIONS OFF)
  add_dependencies(gpu_suite ${ARG_NAME})
  foreach(backend IN LISTS ARG_BACKENDS)
    set(filter "*/${backend}_*:*/${backend}")
    set(label gpu)
    if(backend STREQUAL "cpu")  # and what has no backend in its name
      set(filter "-*/cuda_*:*/cpu_bf16_*:*/cpu_bf16")
      set(label fast)
    elseif(backend STREQUAL "cpu_bf16")
      set(label fast)
    endif()
    add_test(NAME ${ARG_NAME}_${backend} COMMAND ${ARG_NAME} --gtest_filter=${filter})
    cohort_test_properties(${ARG_NAME}_${backend} LABELS ${label})
    set_tests_properties(${ARG_NAME}_${backend} PROPERTIES
      FAIL_REGULAR_EXPRESSION "Running 0 tests from")
    if(NOT backend MATCHES "^cpu")
      set_tests_properties(${ARG_NAME}_${backend} PROPERTIES
        SKIP_REGULAR_EXPRESSION "no usable GPU: " RUN_SERIAL ${ARG_ALONE})
    endif()
  endforeach()
endfunction()

foreach(topic exact input layers numerics replica)
  cohort_add_backend_test(NAME gpu_${topic}_test SOURCES gpu/${topic}_test.cpp)
endforeach()
cohort_add_backend_test(NAME gpu_trouble_test SOURCES gpu/trouble_test.cpp ALONE)
cohort_add_backend_test(NAME gpu_networks_test SOURCES gpu/networks_test.cpp LIBS cohort::optim)
cohort_add_backend_test(NAME gpu_text_test SOURCES gpu/text_test.cpp LIBS cohort::optim)
foreach(topic exact layers numerics text trouble)
  cohort_test_every_level(gpu_${topic}_test ENTRY gpu_${topic}_test_cpu gpu_${topic}_test_cpu_bf16
    ARGUMENTS --gtest_filter=-*/cuda_*)
endforeach()
# Without a precision of its own.
cohort_add_backend_test(NAME gpu_device_test SOURCES gpu/device_test.cpp BACKENDS cpu cuda_f32 ALONE)
cohort_add_backend_test(NAME gpu_optim_test SOURCES gpu/optim_test.cpp LIBS cohort::optim
  BACKENDS cpu cuda_f32)

# No GPU needed.
cohort_add_unit_test(NAME gpu_tolerance_test SOURCES gpu/tolerance_test.cpp LIBS cohort_test_gpu)
add_dependencies(gpu_suite gpu_tolerance_test)

add_executable(gpu_bench bench/gpu_bench.cpp)
add_executable(gpu_accuracy gpu/accuracy.cpp)
foreach(program gpu_bench gpu_accuracy)
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${program} PRIVATE
    cohort::model cohort::optim fmt::fmt cohort_build_settings)
  set_target_properties(${program} PROPERTIES CXX_EXTENSIONS OFF)
  add_dependencies(gpu_suite ${program})
endforeach()

if(COHORT_PARTS STREQUAL "all")
  foreach(script tools/check_cuda_code.py gpu/kernels.py gpu/table.py)
    get_filename_component(name ${script} NAME_WE)
    string(PREPEND name gpu_)
    add_test(NAME ${name}_self_test
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${script} --self-test)
    cohort_test_properties(${name}_self_test)
  endforeach()
  add_test(NAME gpu_run_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/gpu/run_test.py
    ${PROJECT_BINARY_DIR})
  cohort_test_properties(gpu_run_test)
endif()
if(COHORT_HAVE_CUDA AND COHORT_PARTS STREQUAL "all")
  # Every kernel is there for every GPU that the build names, and as PTX for later ones.
  add_test(NAME cuda_code
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/check_cuda_code.py
      "${CMAKE_CUDA_ARCHITECTURES}" $<TARGET_FILE:cohort_layers> $<TARGET_FILE:cohort_optim>)
  cohort_test_properties(cuda_code)
  # A build without the toolkit finds every symbol that this one has from its CUDA files.
  file(GLOB cohort_stubs CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/core/cuda_none.cpp ${PROJECT_SOURCE_DIR}/*/*/cuda_none.cpp
    ${PROJECT_SOURCE_DIR}/layers/kernels_no_cuda.cpp
    ${PROJECT_SOURCE_DIR}/comm/allreduce/nccl/no_nccl.cpp)
  add_library(cohort_stubs OBJECT ${cohort_stubs})
  target_link_libraries(cohort_stubs PRIVATE cohort_build_settings fmt::fmt)
  set_target_properties(cohort_stubs PROPERTIES CXX_EXTENSIONS OFF)
  add_test(NAME cuda_stubs
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/check_cuda_stubs.py
      ${PROJECT_BINARY_DIR} $<TARGET_OBJECTS:cohort_stubs>
    COMMAND_EXPAND_LISTS)
  cohort_test_properties(cuda_stubs)
  # And it builds, the engine at least; its program says that it has no CUDA.
  add_test(NAME build_without_cuda
    COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR}/without_cuda --build-generator ${CMAKE_GENERATOR} --build-noclean
      --build-target gpu_device_test
      --build-options -DCOHORT_CUDA=OFF -DCOHORT_PARTS=engine -DCOHORT_WERROR=ON
        -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
        -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
      --test-command ${PROJECT_BINARY_DIR}/without_cuda/tests/gpu_device_test
        --gtest_filter=*/cpu)
  cohort_test_properties(build_without_cuda LABELS build TIMEOUT 1800 PROCESSORS 2)
endif()
