#include "comm/base/communicators.hpp"

#include <fmt/format.h>

#include <array>
#include <climits>
#include <string>

#include "cohort/core/error.hpp"
#include "core/source_place.hpp"

namespace cohort {
namespace {

MPI_Comm duplicate(MPI_Comm from) {
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(from, &made));
    check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    return made;
}

}  // namespace

void check_mpi(int code, std::source_location where) {
    if (code == MPI_SUCCESS) {
        return;
    }
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    int kind = code;
    MPI_Error_class(code, &kind);
    MPI_Error_string(code, text.data(), &length);
    fail<PeerError>({.where = source_place(where),
                     .what = fmt::format("MPI reports class {}: {}", kind, text.data()),
                     .hint = "the log of the other ranks, and the network between them"});
}

int mpi_count(std::uint64_t count, std::source_location where) {
    if (count > static_cast<std::uint64_t>(INT_MAX)) {
        fail<UsageError>({.where = source_place(where),
                          .what = "too much for one message",
                          .expected = fmt::format("at most {} bytes", INT_MAX),
                          .got = std::to_string(count),
                          .hint = "a transfer, which leaves in chunks"});
    }
    return static_cast<int>(count);
}

bool ended(MPI_Request& request) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
}

void Communicators::open_world() {
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    world = duplicate(MPI_COMM_WORLD);
}

void Communicators::open_shared() {
    transfer = duplicate(world);
    ring = duplicate(world);
    int rank = 0;
    check_mpi(MPI_Comm_rank(world, &rank));
    check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
    check_mpi(MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN));
}

void Communicators::close() {
    for (MPI_Comm* made : {&node, &ring, &transfer, &world}) {
        if (*made != MPI_COMM_NULL) {
            check_mpi(MPI_Comm_free(made));
        }
    }
}

MPI_Comm create_group(MPI_Comm parent, const std::vector<int>& members, int tag) {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_group(parent, &all));
    check_mpi(MPI_Group_incl(all, mpi_count(members.size()), members.data(), &some));
    check_mpi(MPI_Comm_create_group(parent, some, tag, &made));
    check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    check_mpi(MPI_Group_free(&some));
    check_mpi(MPI_Group_free(&all));
    return made;
}

}  // namespace cohort
