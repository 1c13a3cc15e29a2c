#include "comm/base/mpi_version.hpp"

#include <mpi.h>

#include <array>

#include "cohort/core/error.hpp"

namespace cohort {

std::string mpi_library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    const int code = MPI_Get_library_version(text.data(), &length);
    if (code != MPI_SUCCESS) {
        fail<PeerError>({.where = "MPI_Get_library_version",
                         .what = "failed",
                         .expected = "MPI_SUCCESS",
                         .got = std::to_string(code)});
    }
    std::string line(text.data());
    return line.substr(0, line.find('\n'));
}

}  // namespace cohort
