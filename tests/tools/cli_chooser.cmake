# What runs' plans achieved, and the regressor of star-ml trained on it.
add_test(NAME cli_chooser_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/cli_chooser_test.py
    $<TARGET_FILE:cohort>)
cohort_test_properties(cli_chooser_test TIMEOUT 240)
