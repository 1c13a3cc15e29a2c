#include "comm/allreduce/mpi/presence.hpp"

#include "comm/base/communicators.hpp"

namespace cohort {
namespace {

constexpr int kTag = 3;  // on the ring communicator

}  // namespace

Presence::Presence(const AllReduceSetting& setting, int collective)
    : setting_(setting), collective_(collective), waited_(setting.members.size()) {
}

void Presence::tell(std::uint64_t ordinal) {
    note_ = {collective_, ordinal, setting_.self};
    waited_[static_cast<std::size_t>(setting_.self)].store(ordinal);
    for (const int rank : setting_.others()) {
        check_mpi(MPI_Isend(&note_, sizeof note_, MPI_BYTE, rank, kTag,
                            setting_.comm.network.comms.ring, &sends_.emplace_back()));
    }
}

bool Presence::all_sent() {
    std::erase_if(sends_, [](MPI_Request& request) { return ended(request); });
    return sends_.empty();
}

void Presence::listen() {
    MPI_Comm ring = setting_.comm.network.comms.ring;
    for (int found = 1; found != 0;) {
        MPI_Status status;
        check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTag, ring, &found, &status));
        if (found != 0) {
            Note note;
            check_mpi(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, kTag, ring,
                               MPI_STATUS_IGNORE));
            setting_.comm.network.control->heard(status.MPI_SOURCE);
            if (note.collective == collective_) {
                waited_[static_cast<std::size_t>(note.member)].store(note.ordinal);
            }
        }
    }
}

std::vector<int> Presence::missing(std::uint64_t ordinal) const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < setting_.members.size(); ++i) {
        if (static_cast<int>(i) != setting_.self && waited_[i].load() < ordinal) {
            ranks.push_back(setting_.members[i]);
        }
    }
    return ranks;
}

}  // namespace cohort
