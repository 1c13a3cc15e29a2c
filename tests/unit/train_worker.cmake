# Workers, on threads of one process.
foreach(topic inject local_steps ring_flow ring_losses sleep_compute worker_orders worker_push worker_ring worker_servers)
  cohort_add_unit_test(NAME train_${topic}_test SOURCES unit/train_${topic}_test.cpp
    LIBS cohort::train fmt::fmt TIMEOUT 120)
  target_include_directories(train_${topic}_test PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
endforeach()
