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
  cohort_test_properties(golden LABELS mpi TIMEOUT 180)
  cohort_test_properties(golden_all LABELS long TIMEOUT 600)
endif()
