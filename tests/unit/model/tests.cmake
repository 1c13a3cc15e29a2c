cohort_add_unit_tests(model LIBS cohort_test_reference TOPICS executor random structure zoo)

# Machines without AVX-512 have other kernels and other memory orders (blocks of 8, or none).
foreach(test model_random_test model_structure_test)
  foreach(isa AVX2 SSE41)
    string(TOLOWER ${test}_${isa} name)
    add_test(NAME ${name}
      COMMAND ${CMAKE_COMMAND} -E env ONEDNN_MAX_CPU_ISA=${isa} $<TARGET_FILE:${test}>)
    cohort_test_properties(${name})
  endforeach()
endforeach()
