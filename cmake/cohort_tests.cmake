# Helpers that declare tests and benchmarks. Every ctest entry has PROCESSORS, TIMEOUT and a
# label, so that a hanging test ends and the fast part can be run alone (`ctest -L fast`).

# What a sanitized test needs in its environment. Leaks inside Open MPI's plug-ins are not ours;
# uninstrumented libraries cannot be judged by the thread sanitizer.
set(COHORT_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive")
if(COHORT_SANITIZE MATCHES "address")
  list(APPEND COHORT_TEST_ENVIRONMENT
    "ASAN_OPTIONS=fast_unwind_on_malloc=0:detect_stack_use_after_return=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
elseif(COHORT_SANITIZE MATCHES "thread")
  list(APPEND COHORT_TEST_ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:detect_deadlocks=0:exitcode=66")
endif()

# A limit is there to end a hang, not to time: how long a test takes depends on the machine and on
# what else runs there. Ten minutes are ten times what a test takes on two quiet cores; the few that
# take more than one minute there name half an hour (TIMEOUT 1800). So a test that hangs is named long
# before a run of all tests, an hour or more, is over. Sanitizers make tests several times slower.
# Waits within a test share what this leaves them (tests/support/core: guard.py, patience.hpp).
set(COHORT_TEST_LIMIT_S 600)
set(COHORT_TEST_LIMIT_FACTOR 1)
if(COHORT_SANITIZE)
  set(COHORT_TEST_LIMIT_FACTOR 5)
endif()

# cohort_test_properties(NAME [TIMEOUT s] [PROCESSORS n] [LABELS ...])
#
# Gives an existing ctest entry the properties that every entry has; the label is `fast` unless
# others are named. Only those with the label `gpu` see GPUs.
function(cohort_test_properties name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT ${COHORT_TEST_LIMIT_S})
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  math(EXPR limit "${ARG_TIMEOUT} * ${COHORT_TEST_LIMIT_FACTOR}")
  # Jobs take a GPU where there is one: results that are compared with the CPU's must not.
  set(environment ${COHORT_TEST_ENVIRONMENT} "COHORT_TEST_LIMIT_S=${limit}")
  if(NOT gpu IN_LIST ARG_LABELS)
    list(APPEND environment "CUDA_VISIBLE_DEVICES=")
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${limit} PROCESSORS ${ARG_PROCESSORS} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${environment}")
endfunction()

# Whether an entry with these LIBS is left out: in a build of some parts, those of other parts are.
# Its target is there and never built, so that a list may say more about it.
function(cohort_left_out out)
  set(${out} FALSE PARENT_SCOPE)
  foreach(lib IN LISTS ARGN)
    if(NOT COHORT_PARTS STREQUAL "all" AND lib MATCHES "^cohort" AND NOT TARGET ${lib})
      set(${out} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# cohort_add_unit_test(NAME core_rng_test SOURCES unit/core/rng_test.cpp LIBS cohort::core
#                      [LABELS fast] [TIMEOUT 600] [PROCESSORS 1])
#
# One GoogleTest executable, one ctest entry. Sources may include "support/..." headers.
function(cohort_add_unit_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT;PROCESSORS" "SOURCES;LIBS;LABELS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES)
    message(FATAL_ERROR "cohort_add_unit_test: wrong arguments: ${ARGN}")
  endif()
  cohort_left_out(left_out ${ARG_LIBS})
  if(left_out)
    add_executable(${ARG_NAME} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    return()
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE
    ${ARG_LIBS} GTest::gtest_main GTest::gmock cohort_build_settings)
  set_target_properties(${ARG_NAME} PROPERTIES CXX_EXTENSIONS OFF)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  cohort_test_properties(${ARG_NAME} TIMEOUT "${ARG_TIMEOUT}" PROCESSORS "${ARG_PROCESSORS}"
    LABELS ${ARG_LABELS})
endfunction()

# cohort_add_unit_tests(sched TOPICS modes/policy engine/sums LIBS cohort::sched
#                       [PROPERTIES PROCESSORS 2 ...])
#
# A unit test per topic: sched_sums_test of unit/sched/engine/sums_test.cpp, and so on. A test's own
# source is compiled with -O1, in two thirds of the time; what it tests and its references are libraries.
function(cohort_add_unit_tests module)
  cmake_parse_arguments(ARG "" "" "TOPICS;LIBS;PROPERTIES" ${ARGN})
  foreach(topic IN LISTS ARG_TOPICS)
    get_filename_component(name ${topic} NAME)
    cohort_add_unit_test(NAME ${module}_${name}_test SOURCES unit/${module}/${topic}_test.cpp
      LIBS ${ARG_LIBS} ${ARG_PROPERTIES})
    cohort_without_loops(${module}_${name}_test)
  endforeach()
endfunction()

# Levels of instructions that oneDNN can be told (DNNL_MAX_CPU_ISA) and has other kernels, other
# memory orders (blocks of 16 or 8 channels) or other types for.
set(COHORT_CPU_LEVELS SSE41 AVX AVX2 AVX512_CORE AVX512_CORE_BF16)

# cohort_test_every_level(TEST [ENTRY ...] [ARGUMENTS ...])
#
# For a test that compares numbers: an entry TEST_<level> with each level's kernels, skipped where
# the processor lacks that level or has none beyond it. ENTRY: those of the test with all that the
# processor has (default: TEST), which get the same label, `numbers`.
function(cohort_test_every_level test)
  cmake_parse_arguments(ARG "" "" "ENTRY;ARGUMENTS" ${ARGN})
  if(NOT ARG_ENTRY)
    set(ARG_ENTRY ${test})
  endif()
  foreach(entry IN LISTS ARG_ENTRY)
    if(NOT TEST ${entry})  # left out of this build
      return()
    endif()
    set_property(TEST ${entry} APPEND PROPERTY LABELS numbers)
  endforeach()
  foreach(level IN LISTS COHORT_CPU_LEVELS)
    string(TOLOWER ${test}_${level} name)
    add_test(NAME ${name}
      COMMAND $<TARGET_FILE:with_level> ${level} $<TARGET_FILE:${test}> ${ARG_ARGUMENTS})
    cohort_test_properties(${name} LABELS numbers)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# cohort_add_benchmark(NAME conv_bench SOURCES bench/layers/conv_bench.cpp LIBS cohort::layers)
#
# A Google Benchmark executable; built with the rest, run by hand.
function(cohort_add_benchmark)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LIBS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES)
    message(FATAL_ERROR "cohort_add_benchmark: wrong arguments: ${ARGN}")
  endif()
  cohort_left_out(left_out ${ARG_LIBS})
  if(left_out OR NOT TARGET benchmark::benchmark)
    return()
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE
    ${ARG_LIBS} benchmark::benchmark benchmark::benchmark_main cohort_build_settings)
endfunction()

# Options that let `mpirun` start ranks on this host alone, whatever its network and cores.
set(COHORT_MPIRUN_OPTIONS --oversubscribe --bind-to none --mca pml ob1 --mca btl_tcp_if_include lo)
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE cohort_mpirun_version)
if(cohort_mpirun_version MATCHES "Open MPI\\) [1-4][.]")  # later ones refuse that
  list(APPEND COHORT_MPIRUN_OPTIONS --mca oob_tcp_if_include lo)
endif()
execute_process(COMMAND id -u OUTPUT_VARIABLE cohort_user OUTPUT_STRIP_TRAILING_WHITESPACE)
if(cohort_user STREQUAL "0")
  list(PREPEND COHORT_MPIRUN_OPTIONS --allow-run-as-root)
endif()

# cohort_add_mpi_test(NAME comm_world_test SOURCES mpi/comm_world_test.cpp LIBS cohort::comm
#                     RANKS 1 2 4 [BTL self,vader,tcp] [LABELS mpi] [TIMEOUT 600] [LOSSES])
#
# One GoogleTest executable, with tests/support/comm/mpi_main.cpp as its main, and one ctest entry per
# number of ranks and list of transports (BTL; default: self,vader,tcp). A world of another size
# fails. LOSSES: ranks are lost in it, and the others live on.
function(cohort_add_mpi_test)
  cmake_parse_arguments(ARG "LOSSES" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;RANKS;BTL" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_NAME OR NOT ARG_SOURCES OR NOT ARG_RANKS)
    message(FATAL_ERROR "cohort_add_mpi_test: wrong arguments: ${ARGN}")
  endif()
  cohort_left_out(left_out cohort::comm ${ARG_LIBS})
  if(left_out)
    add_executable(${ARG_NAME} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS mpi)
  endif()
  if(NOT ARG_BTL)
    set(ARG_BTL "self,vader,tcp")
  endif()
  set(recovery "")
  if(ARG_LOSSES)  # mpirun returns 0 then, whatever the ranks say: what they print counts
    set(recovery --enable-recovery)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/comm/mpi_main.cpp)
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE
    ${ARG_LIBS} cohort::comm cohort_dead_tcp_mask GTest::gtest GTest::gmock cohort_build_settings)
  set_target_properties(${ARG_NAME} PROPERTIES CXX_EXTENSIONS OFF)
  foreach(btl IN LISTS ARG_BTL)
    string(REPLACE "," "_" transport "${btl}")
    foreach(ranks IN LISTS ARG_RANKS)
      set(entry ${ARG_NAME}_${ranks})
      if(NOT btl STREQUAL "self,vader,tcp")
        set(entry ${ARG_NAME}_${transport}_${ranks})
      endif()
      add_test(NAME ${entry}
        COMMAND ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} ${recovery} --mca btl ${btl}
          -n ${ranks} $<TARGET_FILE:${ARG_NAME}> --ranks ${ranks})
      if(ARG_LOSSES)
        set_tests_properties(${entry} PROPERTIES
          PASS_REGULAR_EXPRESSION "  PASSED  " FAIL_REGULAR_EXPRESSION "  FAILED  ")
      endif()
      set(processors ${ranks})
      if(processors GREATER 2)
        set(processors 2)
      endif()
      cohort_test_properties(${entry} TIMEOUT "${ARG_TIMEOUT}" PROCESSORS ${processors}
        LABELS ${ARG_LABELS})
    endforeach()
  endforeach()
endfunction()
