# The launcher: with a program in place of cohort, then with cohort itself.
add_test(NAME launch_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/tools/launch_test.py ${PROJECT_SOURCE_DIR})
cohort_test_properties(launch_test PROCESSORS 2 TIMEOUT 240)
add_test(NAME launch_train_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/tools/launch_train_test.py $<TARGET_FILE:cohort> ${PROJECT_SOURCE_DIR})
cohort_test_properties(launch_train_test PROCESSORS 2 TIMEOUT 300)
