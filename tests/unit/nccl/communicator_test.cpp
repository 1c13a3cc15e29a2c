// How a communicator of NCCL begins and ends, with functions of the test in the library's place and
// the CPU in a GPU's: none is left behind, whatever the library says, and nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "cohort/core/error.hpp"
#include "comm/allreduce/nccl/nccl_table.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// What the library answers, and what it was asked.
struct PlayedNccl {
    std::mutex mutex;
    std::condition_variable changed;
    ncclResult_t init = ncclInProgress;
    ncclResult_t state = ncclSuccess;
    bool held = false;  ///< the ends of communicators do not return
    int communicators = 0;
    int destroyed = 0;
    int aborted = 0;

    void wait_while_held() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return !held; });
    }
    void count(int& counter) {
        const std::lock_guard lock(mutex);
        ++counter;
        changed.notify_all();
    }
    void hold(bool on) {
        const std::lock_guard lock(mutex);
        held = on;
        changed.notify_all();
    }
    int ended() {
        const std::lock_guard lock(mutex);
        return destroyed + aborted;
    }
    void wait_until_all_have_ended() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return destroyed + aborted == communicators; });
    }
};
PlayedNccl* nccl = nullptr;

ncclResult_t init_rank(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t* config) {
    EXPECT_EQ(config->blocking, 0);
    ++nccl->communicators;
    *comm = reinterpret_cast<ncclComm_t>(nccl);
    return nccl->init;
}
ncclResult_t get_async_error(ncclComm_t, ncclResult_t* state) {
    const std::lock_guard lock(nccl->mutex);
    *state = nccl->state;
    return ncclSuccess;
}
const char* get_error_string(ncclResult_t) {
    return "unhandled system error";
}
const char* get_last_error(ncclComm_t) {
    return "no route to host";
}
ncclResult_t finalize(ncclComm_t) {
    return nccl->state;
}
ncclResult_t destroy(ncclComm_t) {
    nccl->wait_while_held();
    nccl->count(nccl->destroyed);
    return ncclSuccess;
}
ncclResult_t abort_communicator(ncclComm_t) {
    nccl->wait_while_held();
    nccl->count(nccl->aborted);
    return ncclSuccess;
}

class NcclCommunicator : public testing::Test {
protected:
    void SetUp() override { nccl = &played_; }

    std::unique_ptr<DeviceSums> join() {
        NcclTable table;
        table.init_rank = &init_rank;
        table.get_async_error = &get_async_error;
        table.get_error_string = &get_error_string;
        table.get_last_error = &get_last_error;
        table.finalize = &finalize;
        table.destroy = &destroy;
        table.abort = &abort_communicator;
        return join_nccl(table, std::string(NCCL_UNIQUE_ID_BYTES, 'x'), 2, 0, *device_);
    }

    PlayedNccl played_;
    std::unique_ptr<Device> device_ = make_cuda_device(0);
};

TEST_F(NcclCommunicator, IsDestroyedWhenItIsLetGo) {
    join().reset();
    EXPECT_EQ(played_.destroyed, 1);
    EXPECT_EQ(played_.aborted, 0);
}

TEST_F(NcclCommunicator, IsAbortedWhenItsMakingFailsAtOnce) {
    played_.init = ncclSystemError;  // of a job that the call has begun: there is a communicator
    EXPECT_THAT([&] { static_cast<void>(join()); },
                ThrowsMessage<DeviceError>(HasSubstr("no route to host")));
    EXPECT_EQ(played_.communicators, 1);
    EXPECT_EQ(played_.aborted, 1);
}

TEST_F(NcclCommunicator, IsAbortedWhenItsMakingFailsLater) {
    const auto sums = join();
    played_.state = ncclRemoteError;
    EXPECT_EQ(sums->state(), DeviceSums::State::kFailed);
    EXPECT_THAT(sums->error(), HasSubstr("no route to host"));
    sums->abort();
    sums->abort();
    EXPECT_EQ(played_.aborted, 1);
    EXPECT_EQ(played_.destroyed, 0);
    EXPECT_EQ(sums->state(), DeviceSums::State::kFailed);
}

TEST_F(NcclCommunicator, IsAbortedWhenItIsLetGoAndNeverMade) {
    played_.state = ncclInProgress;
    join().reset();
    EXPECT_EQ(played_.aborted, 1);
    EXPECT_EQ(played_.destroyed, 0);
}

TEST_F(NcclCommunicator, EndsWithoutThisThreadWhereAnotherRankHoldsItUp) {
    for (const bool lost : {false, true}) {
        auto sums = join();
        played_.hold(true);
        if (lost) {
            sums->abort();
        }
        sums.reset();
        EXPECT_EQ(played_.ended(), played_.communicators - 1);
        played_.hold(false);
        played_.wait_until_all_have_ended();
    }
}

}  // namespace
}  // namespace cohort
