# Tables of docs/results.md are made by a script.
add_test(NAME fill_results_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/fill_results_test.py)
cohort_test_properties(fill_results_test)
