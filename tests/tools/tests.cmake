# Checks of the source tree itself.
set(tools ${CMAKE_CURRENT_SOURCE_DIR}/tools)

add_test(NAME include_directions
  COMMAND Python3::Interpreter ${tools}/check_includes.py ${PROJECT_SOURCE_DIR})
add_test(NAME include_directions_self_test
  COMMAND Python3::Interpreter ${tools}/check_includes.py --self-test)
add_test(NAME format COMMAND Python3::Interpreter ${tools}/check_format.py ${PROJECT_SOURCE_DIR})
add_test(NAME script_syntax
  COMMAND Python3::Interpreter ${tools}/check_scripts.py ${PROJECT_SOURCE_DIR})

add_test(NAME options_documented COMMAND Python3::Interpreter ${tools}/check_options.py
  ${PROJECT_SOURCE_DIR} $<TARGET_FILE:cohort>)
add_test(NAME options_documented_self_test
  COMMAND Python3::Interpreter ${tools}/check_options.py --self-test)
# Tables of docs/results.md are made by a script.
add_test(NAME fill_results_test COMMAND Python3::Interpreter ${tools}/fill_results_test.py)

foreach(check include_directions include_directions_self_test format script_syntax
    options_documented options_documented_self_test fill_results_test)
  cohort_test_properties(${check})
endforeach()

# The compiler's library needs a clang-tidy newer than Debian's default one.
find_program(COHORT_CLANG_TIDY NAMES clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy-19)
if(COHORT_CLANG_TIDY)
  message(STATUS "Lint: ${COHORT_CLANG_TIDY}")
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  add_test(NAME lint
    COMMAND Python3::Interpreter ${tools}/check_lint.py ${COHORT_CLANG_TIDY} ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR})
  cohort_test_properties(lint LABELS lint PROCESSORS ${cores} TIMEOUT 2400)
  add_test(NAME lint_self_test
    COMMAND Python3::Interpreter ${tools}/check_lint.py --self-test ${COHORT_CLANG_TIDY})
  cohort_test_properties(lint_self_test)
else()
  message(STATUS "Lint: off, there is no clang-tidy-16 (jobs/install_deps.sh installs it)")
endif()
