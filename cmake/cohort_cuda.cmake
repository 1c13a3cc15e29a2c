# COHORT_CUDA=AUTO takes the toolkit when it is there, ON insists on it, OFF ignores it. The
# result is printed at configure time and by `cohort info`.
set(COHORT_HAVE_CUDA FALSE)
if(NOT COHORT_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    set(COHORT_HAVE_CUDA TRUE)
  elseif(COHORT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COHORT_CUDA=ON, but no CUDA toolkit was found: put nvcc on PATH or set "
      "CUDAToolkit_ROOT, or configure with -DCOHORT_CUDA=AUTO")
  endif()
endif()
if(COHORT_HAVE_CUDA)
  message(STATUS "CUDA backend: on (toolkit ${CUDAToolkit_VERSION})")
else()
  message(STATUS "CUDA backend: off (COHORT_CUDA=${COHORT_CUDA}, toolkit not used)")
endif()
