# What the libraries link to. Used by the build and, installed, by cohort-config.cmake, so that
# both look in the same way.
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Makes the target `target` of the library COHORT_<name>_LIBRARY and the headers in COHORT_<name>_INCLUDE.
function(cohort_found_library target name)
  mark_as_advanced(COHORT_${name}_LIBRARY COHORT_${name}_INCLUDE)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL ON)
    target_link_libraries(${target} INTERFACE ${COHORT_${name}_LIBRARY})
    target_include_directories(${target} SYSTEM INTERFACE ${COHORT_${name}_INCLUDE})
  endif()
endfunction()

# oneDNN's own CMake package insists on OpenCL development files that a CPU build never uses, so
# the library and its header are looked up directly.
find_library(COHORT_DNNL_LIBRARY dnnl REQUIRED)
find_path(COHORT_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
cohort_found_library(cohort_dnnl DNNL)

# A build of the engine alone needs nothing else.
if(COHORT_PARTS STREQUAL "engine")
  return()
endif()

find_package(nlohmann_json CONFIG REQUIRED)
find_package(simdjson CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# utf8proc has no CMake package everywhere, libzip's wants its programs too.
find_library(COHORT_UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(COHORT_UTF8PROC_INCLUDE utf8proc.h REQUIRED)
cohort_found_library(cohort_utf8proc UTF8PROC)
find_library(COHORT_LIBZIP_LIBRARY zip REQUIRED)
find_path(COHORT_LIBZIP_INCLUDE zip.h REQUIRED)
cohort_found_library(cohort_libzip LIBZIP)

# HDF5, serial or parallel: files are read and written by one process each. The parallel flavour's
# header includes mpi.h. Functions that come in several versions are those of HDF5 1.10.
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(NOT TARGET cohort_hdf5)
  add_library(cohort_hdf5 INTERFACE IMPORTED)
  set_target_properties(cohort_hdf5 PROPERTIES IMPORTED_GLOBAL ON)
  target_compile_definitions(cohort_hdf5 INTERFACE H5_USE_110_API)
  target_link_libraries(cohort_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
  target_include_directories(cohort_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  if(HDF5_IS_PARALLEL)
    target_link_libraries(cohort_hdf5 INTERFACE MPI::MPI_C)
  endif()
endif()
