#pragma once

#include <string>

namespace cohort {

/// The HDF5 library in use, e.g. "1.10.8 (parallel)". The one call into HDF5 that needs no
/// Hdf5Thread.
[[nodiscard]] std::string hdf5_version_text();

}  // namespace cohort
