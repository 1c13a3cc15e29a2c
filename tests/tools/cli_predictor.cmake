# Records of virtual runs, predictors trained and scored on them.
add_test(NAME cli_predictor_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_predictor_test.py
    $<TARGET_FILE:cohort>)
cohort_test_properties(cli_predictor_test TIMEOUT 240)
