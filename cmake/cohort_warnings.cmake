# With COHORT_WERROR warnings are errors for the compilers that CI has. Other compilers warn of other
# things, some of them wrongly, and none of that keeps anyone from building.
set(COHORT_WERROR_COMPILERS "^(GNU 12|NVIDIA 13)[.]")  # the C++ compiler of Debian 12, CI's nvcc

# cohort_warnings_are_errors(OUT ID VERSION [ID VERSION]): whether they are for a compiler, and for those
# that it works with. ID and VERSION as CMake has them.
function(cohort_warnings_are_errors out)
  set(are_errors ${COHORT_WERROR})
  set(compilers ${ARGN})
  while(compilers)
    list(POP_FRONT compilers id version)
    if(NOT "${id} ${version}" MATCHES "${COHORT_WERROR_COMPILERS}")
      set(are_errors FALSE)
    endif()
  endwhile()
  set(${out} ${are_errors} PARENT_SCOPE)
endfunction()
