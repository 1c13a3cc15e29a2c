#include "comm/allreduce/mpi/member_group.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "comm/base/communicators.hpp"
#include "comm/base/dead_tcp_mask.hpp"
#include "comm/base/futex.hpp"

namespace cohort {
namespace {

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
