# Checks of the source tree itself.
set(tools ${CMAKE_CURRENT_SOURCE_DIR}/tools)

add_test(NAME include_directions
  COMMAND Python3::Interpreter ${tools}/check_includes.py ${PROJECT_SOURCE_DIR})
add_test(NAME include_directions_self_test
  COMMAND Python3::Interpreter ${tools}/check_includes.py --self-test)
add_test(NAME house COMMAND Python3::Interpreter ${tools}/house.py ${PROJECT_SOURCE_DIR})
add_test(NAME house_self_test COMMAND Python3::Interpreter ${tools}/house.py --self-test)
add_test(NAME unnamed_names
  COMMAND Python3::Interpreter ${tools}/check_unnamed.py ${PROJECT_SOURCE_DIR})
add_test(NAME unnamed_names_self_test
  COMMAND Python3::Interpreter ${tools}/check_unnamed.py --self-test)
add_test(NAME format COMMAND Python3::Interpreter ${tools}/check_format.py ${PROJECT_SOURCE_DIR})
add_test(NAME script_syntax
  COMMAND Python3::Interpreter ${tools}/check_scripts.py ${PROJECT_SOURCE_DIR})
add_test(NAME packages_listed
  COMMAND Python3::Interpreter ${tools}/check_packages.py ${PROJECT_SOURCE_DIR})
add_test(NAME docs_links
  COMMAND Python3::Interpreter ${tools}/check_docs.py ${PROJECT_SOURCE_DIR})
add_test(NAME docs_links_self_test
  COMMAND Python3::Interpreter ${tools}/check_docs.py --self-test)

add_test(NAME options_documented COMMAND Python3::Interpreter ${tools}/check_options.py
  ${PROJECT_SOURCE_DIR} $<TARGET_FILE:cohort>)
add_test(NAME options_documented_self_test
  COMMAND Python3::Interpreter ${tools}/check_options.py --self-test)
# Tables of docs/results.md are made by a script, and what README and docs show of outputs.
add_test(NAME fill_results_test COMMAND Python3::Interpreter ${tools}/fill_results_test.py)
# What the commands for newcomers and for CI build and run.
add_test(NAME run_test COMMAND Python3::Interpreter ${tools}/run_test.py)
add_test(NAME docs_samples COMMAND Python3::Interpreter ${tools}/samples.py --check $<TARGET_FILE:cohort>)
add_test(NAME docs_samples_test COMMAND Python3::Interpreter ${tools}/samples_test.py)
# The site: with its links, and with the widths of its pages where there is a browser.
add_test(NAME docs_site COMMAND Python3::Interpreter ${tools}/build_site.py ${PROJECT_BINARY_DIR}/site)
add_test(NAME docs_site_self_test COMMAND Python3::Interpreter ${tools}/build_site.py --self-test)
add_test(NAME docs_site_widths
  COMMAND Python3::Interpreter ${tools}/build_site.py ${PROJECT_BINARY_DIR}/site-widths --widths)
set_tests_properties(format docs_samples docs_site docs_site_widths PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME warnings_test COMMAND ${CMAKE_COMMAND} -P ${tools}/warnings_test.cmake)
cohort_test_properties(warnings_test)

foreach(check include_directions include_directions_self_test house house_self_test unnamed_names
    unnamed_names_self_test format script_syntax packages_listed docs_links docs_links_self_test
    options_documented options_documented_self_test fill_results_test docs_samples docs_samples_test docs_site
    docs_site_self_test docs_site_widths run_test)
  cohort_test_properties(${check})
endforeach()

# The compiler's library needs a clang-tidy newer than Debian's default one.
find_program(COHORT_CLANG_TIDY NAMES clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy-19)
if(COHORT_CLANG_TIDY)
  message(STATUS "Lint: ${COHORT_CLANG_TIDY}")
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  # Compile commands of each source alone, whatever this build does.
  add_test(NAME lint_commands
    COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR}/lint --build-generator ${CMAKE_GENERATOR} --build-noclean
      --build-target cohort_revision --build-target cohort_protobuf_code
      --build-options -DCOHORT_CUDA=${COHORT_CUDA} -DCOHORT_BUILD_TESTS=OFF -DCOHORT_WERROR=ON
        -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
  cohort_test_properties(lint_commands LABELS lint)
  set_tests_properties(lint_commands PROPERTIES FIXTURES_SETUP lint_commands)
  add_test(NAME lint
    COMMAND Python3::Interpreter ${tools}/check_lint.py --changed ${COHORT_CLANG_TIDY}
      ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/lint)
  cohort_test_properties(lint LABELS lint PROCESSORS ${cores} TIMEOUT 2400)
  add_test(NAME lint_all
    COMMAND Python3::Interpreter ${tools}/check_lint.py ${COHORT_CLANG_TIDY}
      ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/lint)
  cohort_test_properties(lint_all LABELS long PROCESSORS ${cores} TIMEOUT 5400)
  set_tests_properties(lint lint_all PROPERTIES FIXTURES_REQUIRED lint_commands)
  add_test(NAME lint_self_test
    COMMAND Python3::Interpreter ${tools}/check_lint.py --self-test ${COHORT_CLANG_TIDY})
  cohort_test_properties(lint_self_test)
else()
  message(STATUS "Lint: off, there is no clang-tidy-16 (jobs/install_deps.sh --dev installs it on Debian 12)")
endif()
