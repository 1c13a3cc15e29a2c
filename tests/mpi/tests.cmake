cohort_add_mpi_test(NAME comm_messenger_test SOURCES mpi/comm_messenger_test.cpp LIBS cohort::comm
  RANKS 1 2 4 BTL self,vader,tcp self,tcp)

add_executable(comm_fault_program mpi/comm_fault_program.cpp)
target_link_libraries(comm_fault_program PRIVATE cohort::comm cohort_dead_tcp_mask
  cohort_build_settings)
add_test(NAME comm_fault_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/comm_fault_test.py
    $<TARGET_FILE:comm_fault_program> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(comm_fault_test LABELS mpi fault PROCESSORS 2)

add_executable(comm_loss_program mpi/comm_loss_program.cpp)
target_include_directories(comm_loss_program PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(comm_loss_program PRIVATE cohort::comm cohort_dead_tcp_mask
  cohort_build_settings)
add_test(NAME comm_loss_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/comm_loss_test.py
    $<TARGET_FILE:comm_loss_program> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(comm_loss_test LABELS mpi fault PROCESSORS 2)
set_tests_properties(comm_loss_test PROPERTIES RUN_SERIAL ON)

cohort_add_mpi_test(NAME comm_pace_test SOURCES mpi/comm_pace_test.cpp LIBS cohort::comm RANKS 2 3)

cohort_add_mpi_test(NAME ring_sums_test SOURCES mpi/ring_sums_test.cpp LIBS cohort::comm
  RANKS 1 2 3 4)

cohort_add_mpi_test(NAME ring_wire_test SOURCES mpi/ring_wire_test.cpp LIBS cohort::comm
  RANKS 1 2 3 4)

add_executable(ring_wait_program mpi/ring_wait_program.cpp)
target_link_libraries(ring_wait_program PRIVATE cohort::comm cohort_build_settings)
set_target_properties(ring_wait_program PROPERTIES CXX_EXTENSIONS OFF)
add_test(NAME ring_wait_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/ring_wait_test.py
    $<TARGET_FILE:ring_wait_program> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(ring_wait_test LABELS mpi PROCESSORS 2)

add_test(NAME server_exchange_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/server_exchange_test.py
    $<TARGET_FILE:cohort> -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS})
cohort_test_properties(server_exchange_test LABELS mpi PROCESSORS 2)

add_test(NAME wire_test
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mpi/wire_test.py
    $<TARGET_FILE:cohort> ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
cohort_test_properties(wire_test LABELS mpi fault PROCESSORS 2 TIMEOUT 1800)
set_tests_properties(wire_test PROPERTIES RUN_SERIAL ON)
