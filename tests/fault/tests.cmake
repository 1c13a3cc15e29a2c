# Jobs that are disturbed from outside, in a short form; by hand with more cases. They share two cores
# with nobody, so that silence means what it should.
set(fault ${CMAKE_CURRENT_SOURCE_DIR}/fault)
add_test(NAME mode_matrix
  COMMAND Python3::Interpreter ${fault}/mode_matrix.py $<TARGET_FILE:cohort> --short)
add_test(NAME kill_test
  COMMAND Python3::Interpreter ${fault}/kill_test.py $<TARGET_FILE:cohort> --cases 6 --at-least 0.5)
add_test(NAME freeze_test
  COMMAND Python3::Interpreter ${fault}/kill_test.py $<TARGET_FILE:cohort> --cases 3 --freeze)
add_test(NAME cut_test
  COMMAND Python3::Interpreter ${fault}/cut_test.py $<TARGET_FILE:cohort> --first 1 --cases 2
    --limits short)
add_test(NAME data_damage_test
  COMMAND Python3::Interpreter ${fault}/data_damage_test.py $<TARGET_FILE:cohort> --cases 14)
add_test(NAME takeover_test
  COMMAND Python3::Interpreter ${fault}/takeover_test.py $<TARGET_FILE:cohort>)
add_test(NAME takeover_hosts_test
  COMMAND Python3::Interpreter ${fault}/takeover_hosts_test.py $<TARGET_FILE:cohort>)
foreach(test mode_matrix kill_test takeover_test takeover_hosts_test freeze_test cut_test data_damage_test)
  cohort_test_properties(${test} LABELS fault PROCESSORS 2 TIMEOUT 1800)
  set_tests_properties(${test} PROPERTIES RUN_SERIAL ON SKIP_RETURN_CODE 77)
endforeach()

add_test(NAME cut_long_test
  COMMAND Python3::Interpreter ${fault}/cut_test.py $<TARGET_FILE:cohort> --cases 40)
add_test(NAME data_damage_long_test
  COMMAND Python3::Interpreter ${fault}/data_damage_test.py $<TARGET_FILE:cohort> --cases 210)
cohort_test_properties(data_damage_long_test LABELS long PROCESSORS 2 TIMEOUT 3600)
set_tests_properties(data_damage_long_test PROPERTIES RUN_SERIAL ON)
cohort_test_properties(cut_long_test LABELS long PROCESSORS 2 TIMEOUT 7200)
set_tests_properties(cut_long_test PROPERTIES RUN_SERIAL ON SKIP_RETURN_CODE 77)

# Damaged files of every kind: some in every run, ten thousand when asked for. Sanitizers reserve more addresses
# than the limit on memory allows.
set(limit "")
if(COHORT_SANITIZE)
  set(limit --no-memory-limit)
endif()
add_test(NAME fuzz_test
  COMMAND Python3::Interpreter ${fault}/fuzz_test.py $<TARGET_FILE:cohort> --variants 216 ${limit})
cohort_test_properties(fuzz_test LABELS fault PROCESSORS 2)
add_test(NAME fuzz_long_test
  COMMAND Python3::Interpreter ${fault}/fuzz_test.py $<TARGET_FILE:cohort> --variants 10000 --seed 2 ${limit})
cohort_test_properties(fuzz_long_test LABELS long PROCESSORS 2 TIMEOUT 7200)
