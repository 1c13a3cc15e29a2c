# The program from outside.

# cohort_add_cli_test(NAME [MPIRUN] [SERIAL] [WORDS ...] [PROPERTIES PROCESSORS 2 ...])
#
# An entry cli_NAME_test (FOLDER_NAME for FOLDER/NAME) that runs cli/NAME_test.py with the program,
# the WORDS and, with MPIRUN, the command that starts ranks. SERIAL: what it measures wants the machine for itself.
function(cohort_add_cli_test name)
  cmake_parse_arguments(ARG "MPIRUN;SERIAL" "" "WORDS;PROPERTIES" ${ARGN})
  if(ARG_MPIRUN)
    list(APPEND ARG_WORDS ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
  endif()
  string(REPLACE "/" "_" entry cli_${name}_test)
  add_test(NAME ${entry} COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}_test.py $<TARGET_FILE:cohort> ${ARG_WORDS})
  cohort_test_properties(${entry} ${ARG_PROPERTIES})
  set_tests_properties(${entry} PROPERTIES RUN_SERIAL ${ARG_SERIAL})
endfunction()

foreach(name bad_input chooser fleet predictor quickstart simulate space stop train writers report/runs text/tokenizers)
  cohort_add_cli_test(${name})
endforeach()
# Compares with a package of PyPI; without it ctest says that it was skipped.
set_tests_properties(cli_text_tokenizers_test PROPERTIES SKIP_RETURN_CODE 77)
# The same with PyTorch and ONNX, and with Pillow.
foreach(name networks/onnx networks/onnx_exporter input/images)
  cohort_add_cli_test(${name})
  string(REPLACE "/" "_" entry cli_${name}_test)
  set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
# An installation, and the Debian package of one.
cohort_add_cli_test(install/tree WORDS ${PROJECT_BINARY_DIR} PROPERTIES PROCESSORS 2)
cohort_add_cli_test(install/package WORDS ${PROJECT_BINARY_DIR} PROPERTIES TIMEOUT 600 LABELS long)
cohort_add_cli_test(input/files)
cohort_add_cli_test(sweep PROPERTIES PROCESSORS 2)
cohort_add_cli_test(launch_train WORDS ${PROJECT_SOURCE_DIR} PROPERTIES PROCESSORS 2)
cohort_add_cli_test(models/fashion_mnist WORDS ${PROJECT_SOURCE_DIR} PROPERTIES PROCESSORS 2 LABELS mpi fault)
set_tests_properties(cli_models_fashion_mnist_test PROPERTIES SKIP_RETURN_CODE 77)
# With a program in place of cohort.
add_test(NAME cli_launch_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/cli/launch_test.py ${PROJECT_SOURCE_DIR})
cohort_test_properties(cli_launch_test TIMEOUT 1800 PROCESSORS 2)
add_test(NAME cli_launch_stop_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/cli/launch/stop_test.py ${PROJECT_SOURCE_DIR})
cohort_test_properties(cli_launch_stop_test TIMEOUT 1800 PROCESSORS 2)
add_test(NAME cli_launch_words_test COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/cli/launch/words_test.py ${PROJECT_SOURCE_DIR})
cohort_test_properties(cli_launch_words_test)

# Jobs of many ranks, some against one process. No contraction there: sums are those of the library.
add_executable(learner_reference support/sim/learner_reference.cpp)
add_executable(micro_batch_reference support/train/micro_batch_reference.cpp)
foreach(program learner_reference micro_batch_reference)
  target_link_libraries(${program} PRIVATE cohort::train cohort::sim CLI11::CLI11 cohort_build_settings)
endforeach()
target_compile_options(micro_batch_reference PRIVATE -ffp-contract=off)
cohort_add_cli_test(learner MPIRUN WORDS $<TARGET_FILE:learner_reference>
  PROPERTIES PROCESSORS 2 LABELS mpi)
foreach(name ranks regression/runs)
  cohort_add_cli_test(${name} MPIRUN WORDS $<TARGET_FILE:micro_batch_reference>
    PROPERTIES PROCESSORS 2)
endforeach()
foreach(name data profile)
  cohort_add_cli_test(${name} MPIRUN PROPERTIES PROCESSORS 2)
endforeach()
foreach(name measured trace)
  cohort_add_cli_test(${name} MPIRUN SERIAL PROPERTIES PROCESSORS 2 LABELS mpi)
endforeach()
# A program that links the library.
add_subdirectory(${PROJECT_SOURCE_DIR}/examples/own_network own_network)
target_link_libraries(own_network PRIVATE cohort_build_settings)
cohort_add_cli_test(networks/own MPIRUN WORDS $<TARGET_FILE:own_network>
  PROPERTIES PROCESSORS 2 LABELS mpi fault)
cohort_add_cli_test(fleet_ranks MPIRUN PROPERTIES PROCESSORS 2 LABELS mpi fault)
cohort_add_cli_test(precision/bf16 MPIRUN PROPERTIES PROCESSORS 2 LABELS mpi)
# What others' tools read: theirs judge it where they are installed.
foreach(name prometheus tensorboard timeline)
  cohort_add_cli_test(observe/${name} MPIRUN PROPERTIES PROCESSORS 2 LABELS mpi)
endforeach()
set_tests_properties(cli_observe_tensorboard_test PROPERTIES SKIP_RETURN_CODE 77)
cohort_add_cli_test(text/runs MPIRUN PROPERTIES TIMEOUT 1800 PROCESSORS 2 LABELS mpi)
cohort_add_cli_test(models/zoo MPIRUN PROPERTIES TIMEOUT 1800 PROCESSORS 2 LABELS mpi)
foreach(name load modes nodes shards)
  cohort_add_cli_test(${name} MPIRUN SERIAL
    PROPERTIES TIMEOUT 1800 PROCESSORS 2 LABELS mpi fault)
endforeach()

# The virtual cluster against real ranks, and a small sweep whose winners are known.
cohort_add_cli_test(validity SERIAL PROPERTIES PROCESSORS 2 LABELS mpi)
set_tests_properties(cli_validity_test PROPERTIES SKIP_RETURN_CODE 77)
cohort_add_cli_test(ci_sweep PROPERTIES PROCESSORS 2 LABELS sweep)
# Without the data set it is skipped, and ctest says so.
set_tests_properties(cli_ci_sweep_test PROPERTIES SKIP_RETURN_CODE 77)

# Whether the program still does what it did (tests/golden): a part of the runs, and all of them.
# Sanitizers change no result, but take ten times as long.
if(NOT COHORT_SANITIZE)
  foreach(part golden golden_all)
    set(choice --quick)
    if(part STREQUAL "golden_all")
      set(choice)
    endif()
    add_test(NAME ${part}
      COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/golden.py $<TARGET_FILE:cohort>
        --check ${choice} -- ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --enable-recovery
        --mca btl self,vader,tcp)
  endforeach()
  cohort_test_properties(golden LABELS mpi)
  cohort_test_properties(golden_all LABELS long)
endif()

# The README's commands on a fresh Debian 13, two builds included; skipped without root or debootstrap.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
add_test(NAME cli_install_fresh_debian_test
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/install/fresh_debian.sh --release trixie)
cohort_test_properties(cli_install_fresh_debian_test LABELS long PROCESSORS ${cores} TIMEOUT 7200)
set_tests_properties(cli_install_fresh_debian_test PROPERTIES SKIP_RETURN_CODE 77)
