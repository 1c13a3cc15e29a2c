// NCCL as a library of communicators. Nothing here blocks: communicators are made with blocking =
// 0, and every call is followed up by asking for the communicator's state.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/tensor/cuda.hpp"
#include "cohort/tensor/cuda_library.hpp"
#include "nccl_table.hpp"

namespace cohort {
namespace {

static_assert(DeviceSumsLibrary::kMostIdBytes == NCCL_UNIQUE_ID_BYTES);

bool failed(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
}

std::string words_of(const NcclTable& nccl, ncclResult_t result, ncclComm_t comm) {
    const char* more = nccl.get_last_error(comm);
    return std::string(nccl.get_error_string(result)) + ": " + (more == nullptr ? "" : more);
}

void check_nccl(const NcclTable& nccl, ncclResult_t result, ncclComm_t comm,
                const char* operation) {
    if (failed(result)) {
        fail<DeviceError>(
            {.where = operation,
             .what = words_of(nccl, result, comm),
             .hint = "NCCL_DEBUG=INFO for NCCL's own words, or another --all-reduce"});
    }
}

class NcclSums final : public DeviceSums {
public:
    NcclSums(const NcclTable& nccl, const std::string& id, int members, int self, Device& device)
        : nccl_(nccl), device_(device) {
        cuda::use(device);
        ncclUniqueId unique{};
        check_invariant(id.size() == sizeof unique.internal, "an id of NCCL of another size");
        std::memcpy(unique.internal, id.data(), id.size());
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        check_nccl(nccl_, nccl_.init_rank(&comm_, members, unique, self, &config), nullptr,
                   "ncclCommInitRankConfig");
    }
    ~NcclSums() override { let_go(); }

    [[nodiscard]] State state() override {
        if (comm_ == nullptr || !error_.empty()) {
            return State::kFailed;
        }
        ncclResult_t result = ncclSuccess;
        const ncclResult_t asked = nccl_.get_async_error(comm_, &result);
        result = asked == ncclSuccess ? result : asked;
        if (result == ncclInProgress) {
            return State::kWorking;
        }
        if (result != ncclSuccess) {
            error_ = words_of(nccl_, result, comm_);
            return State::kFailed;
        }
        return State::kReady;
    }

    [[nodiscard]] std::string error() const override { return error_; }

    void all_reduce(float* buffer, std::int64_t floats, Stream& on) override {
        cuda::use(device_);
        auto* stream = static_cast<cudaStream_t>(cuda::native_stream(on));
        const ncclResult_t result = nccl_.all_reduce(
            buffer, buffer, static_cast<std::size_t>(floats), ncclFloat, ncclSum, comm_, stream);
        if (failed(result)) {  // as after the loss of a member: state() says so
            error_ = words_of(nccl_, result, comm_);
        }
    }

    void abort() noexcept override {
        if (comm_ != nullptr) {
            use_device();
            static_cast<void>(nccl_.abort(comm_));
            comm_ = nullptr;
        }
    }

private:
    void use_device() noexcept {
        try {
            cuda::use(device_);
        } catch (const DeviceError& error) {
            error_ = error.what();
        }
    }

    /// All members do so at about the same time; one that does not come is not waited for for ever.
    void let_go() noexcept {
        using std::chrono::steady_clock;
        constexpr std::chrono::seconds kPatience{2};
        if (comm_ == nullptr) {
            return;
        }
        use_device();
        ncclResult_t result = nccl_.finalize(comm_);
        const auto end = steady_clock::now() + kPatience;
        while (result == ncclInProgress && steady_clock::now() < end) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (nccl_.get_async_error(comm_, &result) != ncclSuccess) {
                break;
            }
        }
        if (result == ncclSuccess) {
            static_cast<void>(nccl_.destroy(comm_));
            comm_ = nullptr;
        } else {
            abort();
        }
    }

    const NcclTable& nccl_;
    Device& device_;
    ncclComm_t comm_ = nullptr;
    std::string error_;
};

class Nccl final : public DeviceSumsLibrary {
public:
    [[nodiscard]] std::string new_id() override {
        ncclUniqueId unique{};
        check_nccl(table_, table_.get_unique_id(&unique), nullptr, "ncclGetUniqueId");
        return {unique.internal, sizeof unique.internal};
    }
    [[nodiscard]] std::unique_ptr<DeviceSums> join(const std::string& id, int members, int self,
                                                   Device& device) override {
        return std::make_unique<NcclSums>(table_, id, members, self, device);
    }
    [[nodiscard]] std::string place(const Device& device) const override {
        std::array<char, 256> host{};
        if (::gethostname(host.data(), host.size() - 1) != 0) {
            fail<DeviceError>({.where = "gethostname", .what = errno_text(errno)});
        }
        return std::string(host.data()) + " " + cuda::gpu_facts(device).bus;
    }

private:
    NcclTable table_ = load_nccl();
};

}  // namespace

NcclTable load_nccl() {
    const cuda::Library library("NCCL", {"libnccl.so.2", "libnccl.so"});
    NcclTable table;
    library.load(table.get_unique_id, "ncclGetUniqueId");
    library.load(table.init_rank, "ncclCommInitRankConfig");
    library.load(table.get_async_error, "ncclCommGetAsyncError");
    library.load(table.get_error_string, "ncclGetErrorString");
    library.load(table.get_last_error, "ncclGetLastError");
    library.load(table.all_reduce, "ncclAllReduce");
    library.load(table.finalize, "ncclCommFinalize");
    library.load(table.destroy, "ncclCommDestroy");
    library.load(table.abort, "ncclCommAbort");
    return table;
}

DeviceSumsLibrary& nccl_library() {
    static Nccl library;
    return library;
}

}  // namespace cohort
