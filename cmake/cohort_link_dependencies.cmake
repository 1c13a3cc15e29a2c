# What the libraries link to. Used by the build and, installed, by cohort-config.cmake, so that
# both look in the same way.
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# oneDNN's own CMake package insists on OpenCL development files that a CPU build never uses, so
# the library and its header are looked up directly.
find_library(COHORT_DNNL_LIBRARY dnnl REQUIRED)
find_path(COHORT_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
mark_as_advanced(COHORT_DNNL_LIBRARY COHORT_DNNL_INCLUDE)
if(NOT TARGET cohort_dnnl)
  add_library(cohort_dnnl INTERFACE IMPORTED)
  set_target_properties(cohort_dnnl PROPERTIES IMPORTED_GLOBAL ON)
  target_link_libraries(cohort_dnnl INTERFACE ${COHORT_DNNL_LIBRARY})
  target_include_directories(cohort_dnnl SYSTEM INTERFACE ${COHORT_DNNL_INCLUDE})
endif()

# A build of the engine alone needs nothing else.
if(COHORT_PARTS STREQUAL "engine")
  return()
endif()

find_package(nlohmann_json CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)

# Parallel HDF5 (Debian's openmpi flavour). Its header includes mpi.h.
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 was found without MPI support; install libhdf5-openmpi-dev")
endif()
if(NOT TARGET cohort_hdf5)
  add_library(cohort_hdf5 INTERFACE IMPORTED)
  set_target_properties(cohort_hdf5 PROPERTIES IMPORTED_GLOBAL ON)
  target_link_libraries(cohort_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_C)
  target_include_directories(cohort_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
endif()
