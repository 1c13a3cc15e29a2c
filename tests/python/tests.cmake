# The Python package (python/), in the build folder as it is installed.
if(TARGET _cohort)
  set(peer ${PROJECT_SOURCE_DIR}/build/peers/bin/python3) # of tests/tools/install_peers.sh
  if(NOT EXISTS ${peer})
    set(peer ${Python3_EXECUTABLE})
  endif()
  set(COHORT_TORCH_PYTHON ${peer} CACHE FILEPATH
    "Python with PyTorch, of the version that the package is built for; its tests are skipped without")
  add_test(NAME python_package_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/python/package_test.py $<TARGET_FILE:cohort>)
  cohort_test_properties(python_package_test)
  foreach(entry torch_test torch_mistakes_test)
    add_test(NAME python_${entry} COMMAND ${COHORT_TORCH_PYTHON}
      ${CMAKE_CURRENT_SOURCE_DIR}/python/${entry}.py $<TARGET_FILE:cohort>
      ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
    cohort_test_properties(python_${entry} TIMEOUT 1800 PROCESSORS 2 LABELS mpi fault)
  endforeach()
  add_test(NAME python_distributed_test COMMAND ${COHORT_TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/python/distributed_test.py
    ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
  cohort_test_properties(python_distributed_test TIMEOUT 1800 PROCESSORS 2 LABELS mpi fault)
  add_test(NAME python_frameworks_test COMMAND ${COHORT_TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/python/frameworks_test.py
    ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
  cohort_test_properties(python_frameworks_test TIMEOUT 1800 PROCESSORS 2 LABELS mpi)
  add_test(NAME python_wheel_test COMMAND ${COHORT_TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/python/wheel_test.py)
  cohort_test_properties(python_wheel_test)
  add_test(NAME python_wheel_whole_test COMMAND ${COHORT_TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/python/wheel_test.py --whole
    ${MPIEXEC_EXECUTABLE} ${COHORT_MPIRUN_OPTIONS} --mca btl self,vader,tcp)
  cohort_test_properties(python_wheel_whole_test TIMEOUT 7200 PROCESSORS 2 LABELS long)
  foreach(entry python_wheel_test python_wheel_whole_test)
    set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
  foreach(entry python_package_test python_torch_test python_torch_mistakes_test
      python_distributed_test python_frameworks_test)
    set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT
      "PYTHONPATH=$<TARGET_FILE_DIR:_cohort>/..")
    set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
endif()
