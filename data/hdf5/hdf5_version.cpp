#include "data/hdf5/hdf5_version.hpp"

#include <H5public.h>
#include <fmt/format.h>

#include "cohort/core/error.hpp"

namespace cohort {

std::string hdf5_version_text() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (H5get_libversion(&major, &minor, &release) < 0) {
        fail<FileError>({.where = "HDF5", .what = "the version is not known"});
    }
#ifdef H5_HAVE_PARALLEL
    constexpr const char* kFlavour = "parallel";
#else
    constexpr const char* kFlavour = "serial";
#endif
    return fmt::format("{}.{}.{} ({})", major, minor, release, kFlavour);
}

}  // namespace cohort
