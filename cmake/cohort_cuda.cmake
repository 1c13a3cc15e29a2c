# COHORT_CUDA says when the backend is built:
#   AUTO     where an NVIDIA driver is installed and all that the backend is built from: the toolkit
#            with nvcc, and the headers of cuDNN 9 and cuBLASLt
#   TOOLKIT  the same without a driver: for a program that runs elsewhere, and to check the code
#   ON, OFF  always, or the configure step fails; never
# NCCL is looked for besides. The result is printed at configure time and by `cohort info`.
#
# The program links the CUDA runtime statically; cuDNN, cuBLASLt and NCCL are opened when a GPU is
# used (see core/tensor/cuda_library.hpp), so only their headers are needed here.
set(COHORT_HAVE_CUDA FALSE)
set(COHORT_HAVE_NCCL FALSE)
set(COHORT_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
  "GPUs to compile for, as in CUDA_ARCHITECTURES: sm_80, sm_90 and PTX of 90 for later ones")

# What keeps the backend from being built, in `missing`.
function(cohort_find_cuda missing)
  set(${missing} "" PARENT_SCOPE)
  if(NOT CUDAToolkit_FOUND)
    set(${missing} "no CUDA toolkit >= 12: put nvcc on PATH or set CUDAToolkit_ROOT" PARENT_SCOPE)
    return()
  endif()
  find_path(COHORT_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(COHORT_CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(COHORT_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(COHORT_CUDNN_INCLUDE COHORT_CUBLASLT_INCLUDE COHORT_NCCL_INCLUDE)
  if(NOT COHORT_CUDNN_INCLUDE OR NOT EXISTS ${COHORT_CUDNN_INCLUDE}/cudnn_graph.h)
    set(${missing} "no cuDNN 9: cudnn.h and cudnn_graph.h (COHORT_CUDNN_INCLUDE)" PARENT_SCOPE)
  elseif(NOT COHORT_CUBLASLT_INCLUDE)
    set(${missing} "no cuBLASLt: cublasLt.h (COHORT_CUBLASLT_INCLUDE)" PARENT_SCOPE)
  endif()
endfunction()

# Whether this machine has a driver. The toolkit's own stub is called libcuda.so, without a number.
function(cohort_find_nvidia_driver found)
  set(${found} FALSE PARENT_SCOPE)
  find_program(nvidia_smi nvidia-smi PATHS /usr/lib/wsl/lib NO_CACHE)
  find_library(libcuda NAMES libcuda.so.1 PATHS /usr/lib/wsl/lib NO_CACHE)
  if(EXISTS /proc/driver/nvidia/version OR nvidia_smi OR libcuda)
    set(${found} TRUE PARENT_SCOPE)
  endif()
endfunction()

set(missing "")
if(COHORT_CUDA STREQUAL "AUTO")
  cohort_find_nvidia_driver(driver)
  if(NOT driver)
    set(missing "no NVIDIA driver is installed; COHORT_CUDA=TOOLKIT builds it nevertheless")
  endif()
elseif(COHORT_CUDA STREQUAL "OFF")
  set(missing "not asked for")
endif()
if(NOT missing)
  find_package(CUDAToolkit 12 QUIET)
  cohort_find_cuda(missing)
  if(NOT missing AND NOT CMAKE_CUDA_COMPILER)
    # Not every toolkit has a compiler, and not every one gets on with the host's.
    if(CUDAToolkit_NVCC_EXECUTABLE)
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE)  # tried again when somebody has mended it
      set(missing "nvcc (${CUDAToolkit_NVCC_EXECUTABLE}) compiles nothing here")
    endif()
  endif()
  if(missing AND COHORT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COHORT_CUDA=ON, but ${missing}; or configure with -DCOHORT_CUDA=AUTO")
  endif()
  if(NOT missing)
    set(COHORT_HAVE_CUDA TRUE)
    set(CMAKE_CUDA_ARCHITECTURES ${COHORT_CUDA_ARCHITECTURES})
    if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    enable_language(CUDA)
    # nvcc's host compiler looks there anyway; naming them would change their order.
    list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    # CMake 3.25 does not know that nvcc has C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    # nvcc's own warnings, and the host compiler's of the code it makes.
    set(options --expt-relaxed-constexpr --extended-lambda
      -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers)
    cohort_warnings_are_errors(are_errors
      ${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})
    if(are_errors)
      list(APPEND options -Werror=all-warnings -Xcompiler=-Werror)
    endif()
    target_compile_options(cohort_build_settings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${options}>")
    add_library(cohort_cuda_headers INTERFACE)
    target_include_directories(cohort_cuda_headers SYSTEM INTERFACE
      ${COHORT_CUDNN_INCLUDE} ${COHORT_CUBLASLT_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
    if(COHORT_NCCL_INCLUDE)
      set(COHORT_HAVE_NCCL TRUE)
      add_library(cohort_nccl_headers INTERFACE)
      target_include_directories(cohort_nccl_headers SYSTEM INTERFACE
        ${COHORT_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
    endif()
  endif()
endif()
if(COHORT_HAVE_CUDA)
  string(REPLACE ";" " " architectures "${CMAKE_CUDA_ARCHITECTURES}")
  message(STATUS "CUDA backend: on (toolkit ${CUDAToolkit_VERSION} for ${architectures}, NCCL: "
    "${COHORT_HAVE_NCCL})")
else()
  message(STATUS "CUDA backend: off (COHORT_CUDA=${COHORT_CUDA}; ${missing})")
endif()
