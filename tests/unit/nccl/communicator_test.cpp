// How a communicator of NCCL begins and ends, with functions of the test in the library's place and
// the CPU in a GPU's: none is left behind, whatever the library says, and nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "cohort/core/error.hpp"
#include "comm/allreduce/nccl/nccl_table.hpp"
#include "core/tensor/cuda.hpp"

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
    ncclResult_t memory = ncclSuccess;  ///< to registrations and allocations
    int registered = 0;                 ///< buffers that are so now
    int registered_at_the_end = -1;     ///< when the communicator was finalized or aborted
    int allocated = 0;                  ///< pieces of memory that are so now

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
ncclResult_t register_buffer(ncclComm_t, void* buffer, size_t, void** handle) {
    nccl->registered += nccl->memory == ncclSuccess ? 1 : 0;
    *handle = buffer;
    return nccl->memory;
}
ncclResult_t deregister_buffer(ncclComm_t, void* handle) {
    EXPECT_NE(handle, nullptr);
    --nccl->registered;
    return ncclSuccess;
}
ncclResult_t allocate(void** memory, size_t bytes) {
    *memory = nccl->memory == ncclSuccess ? std::malloc(bytes) : nullptr;
    nccl->allocated += nccl->memory == ncclSuccess ? 1 : 0;
    return nccl->memory;
}
ncclResult_t free_memory(void* memory) {
    std::free(memory);
    --nccl->allocated;
    return ncclSuccess;
}
ncclResult_t finalize(ncclComm_t) {
    nccl->registered_at_the_end = nccl->registered;
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

    static NcclTable functions() {
        NcclTable table;
        table.register_buffer = &register_buffer;
        table.deregister_buffer = &deregister_buffer;
        table.allocate = &allocate;
        table.free = &free_memory;
        table.init_rank = &init_rank;
        table.get_async_error = &get_async_error;
        table.get_error_string = &get_error_string;
        table.get_last_error = &get_last_error;
        table.finalize = &finalize;
        table.destroy = &destroy;
        table.abort = &abort_communicator;
        return table;
    }
    std::unique_ptr<DeviceSums> join(const NcclTable& table = functions()) {
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

TEST_F(NcclCommunicator, ItsBuffersAreRegisteredUntilItIsDestroyed) {
    std::array<float, 4> buffers{};
    auto sums = join();
    sums->register_buffer(&buffers[0], 8);
    sums->register_buffer(&buffers[2], 8);
    EXPECT_EQ(played_.registered, 2);
    sums.reset();
    EXPECT_EQ(played_.registered_at_the_end, 0) << "they go first";
    EXPECT_EQ(played_.destroyed, 1);
}

TEST_F(NcclCommunicator, GoesOnWithoutRegistrationWhereTheLibraryHasNone) {
    std::array<float, 4> buffers{};
    played_.memory = ncclInvalidUsage;
    auto refused = join();
    refused->register_buffer(buffers.data(), 16);
    refused.reset();
    NcclTable old = functions();
    old.register_buffer = nullptr;
    old.deregister_buffer = nullptr;
    auto without = join(old);
    without->register_buffer(buffers.data(), 16);
    without.reset();
    EXPECT_EQ(played_.registered, 0);
    EXPECT_EQ(played_.destroyed, 2);
}

TEST_F(NcclCommunicator, AnAbortLeavesRegistrationsToTheLibrary) {
    float buffer = 0;
    const auto sums = join();
    sums->register_buffer(&buffer, sizeof buffer);
    sums->abort();
    EXPECT_EQ(played_.registered, 1);
    EXPECT_EQ(played_.aborted, 1);
}

TEST_F(NcclCommunicator, MemoryIsTheLibrarysOrElseTheDevices) {
    {
        const Buffer made = allocate_nccl(functions(), *device_, 4096);
        EXPECT_EQ(made.bytes(), 4096U);
        EXPECT_EQ(played_.allocated, 1);
    }
    EXPECT_EQ(played_.allocated, 0) << "it went back to the library";
    played_.memory = ncclUnhandledCudaError;
    const Buffer refused = allocate_nccl(functions(), *device_, 4096);
    const Buffer old = allocate_nccl(NcclTable{}, *device_, 4096);
    EXPECT_EQ(played_.allocated, 0);
    EXPECT_NE(refused.data(), nullptr);
    EXPECT_NE(old.data(), nullptr);
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
