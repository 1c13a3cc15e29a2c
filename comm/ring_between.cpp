#include "ring_between.hpp"

#include <algorithm>

#include "communicators.hpp"

namespace cohort {

NodeGroups NodeGroups::of(const RingSetting& setting) {
    NodeGroups groups;
    std::vector<int> known;
    for (std::size_t member = 0; member < setting.nodes.size(); ++member) {
        const auto found = std::find(known.begin(), known.end(), setting.nodes[member]);
        const auto index = static_cast<std::size_t>(found - known.begin());
        if (found == known.end()) {
            known.push_back(setting.nodes[member]);
            groups.members.emplace_back();
        }
        groups.members[index].push_back(static_cast<int>(member));
        if (static_cast<int>(member) == setting.self) {
            groups.own = static_cast<int>(index);
        }
    }
    return groups;
}

MPI_Request RingMessages::send(const void* data, std::uint64_t bytes, int rank, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, rank, tag_ + tag,
                        thread_.communicators().ring, &request));
    thread_.count_sent(bytes, 1);
    thread_.wake(rank);
    return request;
}

MPI_Request RingMessages::receive(void* data, std::uint64_t bytes, int rank, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data, mpi_count(bytes), MPI_BYTE, rank, tag_ + tag,
                        thread_.communicators().ring, &request));
    thread_.count_received(bytes, 1);
    return request;
}

bool RingMessages::ended(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) {
        return true;
    }
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
}

bool RingMessages::received(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) {
        return true;
    }
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&request, &done, &status));
    if (done != 0) {
        thread_.heard(status.MPI_SOURCE);
    }
    return done != 0;
}

}  // namespace cohort
