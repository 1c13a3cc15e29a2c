# Everything the project builds with, from Debian packages.
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(ZLIB REQUIRED)

# oneDNN's own CMake package insists on OpenCL development files that a CPU build never uses, so
# the library and its header are looked up directly.
find_library(COHORT_DNNL_LIBRARY dnnl REQUIRED)
find_path(COHORT_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(cohort_dnnl INTERFACE)
target_link_libraries(cohort_dnnl INTERFACE ${COHORT_DNNL_LIBRARY})
target_include_directories(cohort_dnnl SYSTEM INTERFACE ${COHORT_DNNL_INCLUDE})
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Parallel HDF5 (Debian's openmpi flavour). Its header includes mpi.h.
find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 was found without MPI support; install libhdf5-openmpi-dev")
endif()
add_library(cohort_hdf5 INTERFACE)
target_link_libraries(cohort_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_C)
target_include_directories(cohort_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
