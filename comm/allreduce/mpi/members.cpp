#include "comm/allreduce/mpi/members.hpp"

#include <exception>
#include <thread>

#include "comm/base/communicators.hpp"
#include "comm/base/dead_tcp_mask.hpp"
#include "comm/base/futex.hpp"

namespace cohort {
namespace {

constexpr int kTag = 3;  // of notes on the ring communicator

// Tags of the creation of communicators: below this one, a few for each all-reduce, lower ones for
// later all-reduces. A creation that was given up still has messages in flight, and Open MPI lets
// the lowest tag go first.
constexpr int kLastTag = 1 << 30;
constexpr int kTags = 16;
constexpr int kGroups = (1 << 29) / kTags;

constexpr std::uint32_t kRunning = 0;
constexpr std::uint32_t kMade = 1;
constexpr std::uint32_t kGivenUp = 2;

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

struct MemberGroup::Making {
    MPI_Comm parent = MPI_COMM_NULL;
    std::vector<int> members;
    int tag = 0;
    MPI_Comm made = MPI_COMM_NULL;
    std::exception_ptr failure;
    std::atomic<std::uint32_t> state{kRunning};

    void make() noexcept {
        const DeadTcpMask mask;
        try {
            made = create_group(parent, members, tag);
        } catch (...) {
            failure = std::current_exception();
        }
        end(kMade);
    }
    /// The first call counts.
    void end(std::uint32_t how) noexcept {
        std::uint32_t running = kRunning;
        state.compare_exchange_strong(running, how);
        futex_wake_all(state);
    }
};

MemberGroup::MemberGroup(const AllReduceSetting& setting, int collective)
    : setting_(setting), making_(std::make_shared<Making>()) {
    making_->parent = setting.comm.network.comms.ring;
    making_->members = setting.members;
    making_->tag = kLastTag - (collective % kGroups + 1) * kTags;
}

MPI_Comm MemberGroup::make() {
    int level = MPI_THREAD_SINGLE;
    check_mpi(MPI_Query_thread(&level));
    const auto named = setting_.comm.operations.begin("ring communicator", 0,
                                                      [this] { return setting_.others(); });
    if (level < MPI_THREAD_MULTIPLE) {
        setting_.comm.commands.run([this] { making_->make(); });
    } else {
        std::thread maker([making = making_] { making->make(); });
        while (making_->state.load() == kRunning) {
            futex_sleep(making_->state, kRunning);
        }
        if (making_->state.load() == kGivenUp) {
            maker.detach();
            setting_.fail_broken();
        }
        maker.join();
    }
    if (making_->failure) {
        std::rethrow_exception(making_->failure);
    }
    return making_->made;
}

void MemberGroup::give_up() noexcept {
    making_->end(kGivenUp);
}

}  // namespace cohort
