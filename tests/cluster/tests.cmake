# Several hosts, made of network namespaces; a real Slurm on them. They need root, or sudo without a
# password, and are skipped otherwise.
set(cluster ${CMAKE_CURRENT_SOURCE_DIR}/cluster)
add_test(NAME netns_test COMMAND Python3::Interpreter ${cluster}/netns_test.py)
add_test(NAME unreachable_test COMMAND Python3::Interpreter ${cluster}/unreachable_test.py)
add_test(NAME slurm_test
  COMMAND Python3::Interpreter ${cluster}/slurm_test.py $<TARGET_FILE:cohort> ${PROJECT_SOURCE_DIR})
add_test(NAME tree_test COMMAND Python3::Interpreter ${cluster}/tree_test.py $<TARGET_FILE:cohort>)
add_test(NAME fleet_room_test COMMAND Python3::Interpreter ${cluster}/fleet_room_test.py $<TARGET_FILE:cohort>)
cohort_test_properties(netns_test LABELS cluster PROCESSORS 2)
cohort_test_properties(unreachable_test LABELS cluster PROCESSORS 2)
cohort_test_properties(tree_test LABELS cluster PROCESSORS 2)
cohort_test_properties(fleet_room_test LABELS cluster PROCESSORS 2)
cohort_test_properties(slurm_test LABELS cluster PROCESSORS 2 TIMEOUT 1800)
set_tests_properties(netns_test fleet_room_test tree_test unreachable_test slurm_test PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(unreachable_test fleet_room_test PROPERTIES RUN_SERIAL ON)  # many jobs at once
