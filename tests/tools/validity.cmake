# The virtual cluster against real ranks, and a small sweep whose winners are known.
set(tools ${CMAKE_CURRENT_SOURCE_DIR}/tools)
add_test(NAME validity_test
  COMMAND Python3::Interpreter ${tools}/validity_test.py $<TARGET_FILE:cohort>)
cohort_test_properties(validity_test LABELS mpi TIMEOUT 300 PROCESSORS 2)
set_tests_properties(validity_test PROPERTIES RUN_SERIAL TRUE)
add_test(NAME ci_sweep_test
  COMMAND Python3::Interpreter ${tools}/ci_sweep_test.py $<TARGET_FILE:cohort>)
set(limit 180)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(limit 600)
endif()
cohort_test_properties(ci_sweep_test LABELS sweep TIMEOUT ${limit} PROCESSORS 2)
# Without the data set it is skipped, and ctest says so.
set_tests_properties(ci_sweep_test PROPERTIES SKIP_RETURN_CODE 77)
