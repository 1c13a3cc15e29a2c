// NCCL as a library of communicators. Nothing here blocks: communicators are made with blocking =
// 0, and every call is followed up by asking for the communicator's state. Ends are another
// thread's: ncclCommDestroy and ncclCommAbort are calls of all ranks of a node together, and one
// that is frozen, or keeps its ring for longer, holds up the others in them.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "comm/allreduce/nccl/nccl_table.hpp"
#include "core/log.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/stream.hpp"
#include "core/tensor/cuda_library.hpp"

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

constexpr std::chrono::seconds kAbortPatience{2};

/// True: it may be destroyed.
bool finalized(const NcclTable& nccl, ncclComm_t comm) noexcept {
    const auto end = std::chrono::steady_clock::now() + kAbortPatience;
    ncclResult_t result = nccl.finalize(comm);
    while (result == ncclInProgress && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        if (nccl.get_async_error(comm, &result) != ncclSuccess) {
            return false;
        }
    }
    return result == ncclSuccess;
}

enum class Ending : std::uint8_t { kTogether, kAbort };

/// On a thread that is on no GPU yet.
void end_here(const NcclTable& nccl, ncclComm_t comm, int gpu, Ending how) noexcept {
    try {
        cuda::use(gpu);
    } catch (const DeviceError&) {  // the library is not better off: its own calls fail as well
    }
    if (how == Ending::kTogether && finalized(nccl, comm)) {
        static_cast<void>(nccl.destroy(comm));
    } else {
        static_cast<void>(nccl.abort(comm));
    }
}

/// Ends a communicator; waits for it for as long as those take that all do so now. After that it
/// goes on by itself.
void end_communicator(const NcclTable& nccl, ncclComm_t comm, int gpu, Ending how) noexcept {
    try {
        std::packaged_task<void()> task([=] { end_here(nccl, comm, gpu, how); });
        const std::future<void> ended = task.get_future();
        std::thread(std::move(task)).detach();
        static_cast<void>(ended.wait_for(kAbortPatience));
    } catch (const std::exception& error) {  // no thread to be had: the process is near its end
        log_warn("a communicator of NCCL is left behind: {}", error.what());
    }
}

class NcclSums final : public DeviceSums {
public:
    NcclSums(const NcclTable& nccl, const std::string& id, int members, int self, Device& device)
        : nccl_(nccl), device_(device), gpu_(cuda::gpu_facts(device).index) {
        cuda::use(device);
        ncclUniqueId unique{};
        check_invariant(id.size() == sizeof unique.internal, "an id of NCCL of another size");
        std::memcpy(unique.internal, id.data(), id.size());
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        const ncclResult_t begun = nccl_.init_rank(&comm_, members, unique, self, &config);
        try {
            check_nccl(nccl_, begun, comm_, "ncclCommInitRankConfig");
        } catch (const DeviceError&) {
            end(Ending::kAbort);  // there is one when what fails is the work that the call began
            throw;
        }
    }
    /// All members do so at about the same time.
    ~NcclSums() override { end(state() == State::kReady ? Ending::kTogether : Ending::kAbort); }

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

    void register_buffer(void* data, std::size_t bytes) override {
        void* handle = nullptr;
        cuda::use(device_);
        if (nccl_.register_buffer != nullptr && nccl_.deregister_buffer != nullptr &&
            nccl_.register_buffer(comm_, data, bytes, &handle) == ncclSuccess &&
            handle != nullptr) {
            registered_.push_back(handle);
        }
    }

    void abort() noexcept override { end(Ending::kAbort); }

private:
    void end(Ending how) noexcept {
        if (ncclComm_t comm = std::exchange(comm_, nullptr); comm != nullptr) {
            // The library requires this before it destroys; an abort releases them by itself.
            for (; how == Ending::kTogether && !registered_.empty(); registered_.pop_back()) {
                static_cast<void>(nccl_.deregister_buffer(comm, registered_.back()));
            }
            end_communicator(nccl_, comm, gpu_, how);
        }
    }

    NcclTable nccl_;
    Device& device_;
    int gpu_;
    ncclComm_t comm_ = nullptr;
    std::vector<void*> registered_;  ///< the library's handles
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
        return join_nccl(table_, id, members, self, device);
    }
    [[nodiscard]] std::unique_ptr<Stream> make_stream(Device& device) override {
        return cuda::make_cuda_stream(cuda::gpu_facts(device).index, cuda::Priority::kHighest);
    }
    [[nodiscard]] Buffer allocate(Device& device, std::size_t bytes) override {
        return allocate_nccl(table_, device, bytes);
    }
    /// The default of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB
    /// 2020): few enough starts of sums, small enough that most of them run beside backward.
    [[nodiscard]] std::int64_t piece_bytes() const noexcept override { return 25 << 20; }
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
    try {
        library.load(table.register_buffer, "ncclCommRegister");
        library.load(table.deregister_buffer, "ncclCommDeregister");
        library.load(table.allocate, "ncclMemAlloc");
        library.load(table.free, "ncclMemFree");
    } catch (const DeviceError&) {  // sums are made without them
    }
    return table;
}

Buffer allocate_nccl(const NcclTable& nccl, Device& device, std::size_t bytes) {
    static std::atomic<decltype(&ncclMemFree)> free_memory{nullptr};
    void* data = nullptr;
    cuda::use(device);
    if (nccl.allocate != nullptr && nccl.free != nullptr &&
        nccl.allocate(&data, bytes) == ncclSuccess && data != nullptr) {
        free_memory = nccl.free;
        return {data, bytes, [](void* memory) noexcept {
                    if (memory == nullptr) {
                        return;
                    }
                    // Unlike cudaFree, this does not wait for kernels that use the memory.
                    cudaPointerAttributes place{};
                    if (cudaPointerGetAttributes(&place, memory) == cudaSuccess) {
                        static_cast<void>(cudaSetDevice(place.device));
                        static_cast<void>(cudaDeviceSynchronize());
                    }
                    static_cast<void>(free_memory.load()(memory));
                }};
    }
    return device.allocate(bytes);
}

std::unique_ptr<DeviceSums> join_nccl(const NcclTable& nccl, const std::string& id, int members,
                                      int self, Device& device) {
    return std::make_unique<NcclSums>(nccl, id, members, self, device);
}

DeviceSumsLibrary& nccl_library() {
    static Nccl library;
    return library;
}

}  // namespace cohort
