#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cohort/core/error.hpp"
#include "cohort/core/interface.hpp"

namespace cohort {

enum class DeviceKind { kCpu, kCuda };

/// A point in a stream's work. Recorded by Stream::record.
class Event : public Interface {
public:
    /// True when everything before the recorded point is done; never blocks.
    [[nodiscard]] virtual bool done() const = 0;
    /// Blocks (sleeping) until done. Errors: DeviceError when the work failed.
    virtual void wait() const = 0;
    /// Seconds between the earlier recorded point and this one, measured by the device.
    [[nodiscard]] virtual double seconds_since(const Event& earlier) const = 0;
};

/// Work of a stream that was recorded once and can be queued again as a whole. The memory that it
/// reads and writes must stay in place; values that change between two runs are read from that
/// memory.
class Recording : public Interface {
public:
    /// Queues the recorded work on the stream where it was recorded. Errors: DeviceError.
    virtual void queue() = 0;
    /// Pieces of work that it consists of: kernels, copies, fills.
    [[nodiscard]] virtual std::size_t size() const = 0;
};

/// An in-order queue of device work. Calls return at once where the device is asynchronous; on
/// the CPU the work is done when the call returns, which callers must not rely on.
class Stream : public Interface {
public:
    /// Copies bytes; both sides may be host or device memory. Host memory must stay valid until
    /// the copy is done, and should come from Device::allocate_host.
    virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
    virtual void fill_zero(void* to, std::size_t bytes) = 0;
    [[nodiscard]] virtual std::unique_ptr<Event> record() = 0;
    /// Later work of this stream starts after `event`.
    virtual void wait_for(const Event& event) = 0;
    /// Blocks until all work is done. Errors: DeviceError when it failed.
    virtual void synchronize() = 0;

    /// Where the device can record (a CUDA graph): work queued from now on is recorded instead of
    /// done, until end_recording(). Nothing may wait for the stream, allocate or free device memory
    /// meanwhile. @return false: the device cannot record, and work is done as usual
    [[nodiscard]] virtual bool begin_recording() { return false; }
    /// Ends a recording; none of the recorded work has been done yet. Errors: DeviceError when some
    /// queued work cannot be recorded; the stream can still be used.
    [[nodiscard]] virtual std::unique_ptr<Recording> end_recording() { return nullptr; }
};

/// Owned memory, 64-byte aligned, contents undefined at first.
class Buffer {
public:
    using Free = void (*)(void*) noexcept;
    Buffer() = default;
    Buffer(void* data, std::size_t bytes, Free free) noexcept : data_(data, free), bytes_(bytes) {}
    [[nodiscard]] void* data() const noexcept { return data_.get(); }
    [[nodiscard]] float* floats() const noexcept { return static_cast<float*>(data_.get()); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    std::unique_ptr<void, Free> data_{nullptr, [](void*) noexcept {}};
    std::size_t bytes_ = 0;
};

struct DeviceMemory {
    std::uint64_t free_bytes = 0;
    std::uint64_t total_bytes = 0;
};

/// A device has less memory than requested. Existing memory is untouched.
struct OutOfMemory : DeviceError {
    OutOfMemory(const std::string& message, std::uint64_t asked_bytes, std::uint64_t free_bytes)
        : DeviceError(message), asked(asked_bytes), free(free_bytes) {}
    std::uint64_t asked;  ///< bytes; 0: unknown
    std::uint64_t free;   ///< bytes; 0: unknown
};

/// A place that computes. Backends: `cpu` (oneDNN) and `cuda`; a build without CUDA has a stub
/// in the latter's place, so callers never ask which backends were compiled in.
class Device : public Interface {
public:
    [[nodiscard]] virtual DeviceKind kind() const = 0;
    /// "cpu: 2 threads, avx512_core_bf16" or "cuda:0: NVIDIA H200".
    [[nodiscard]] virtual std::string description() const = 0;
    /// Errors: OutOfMemory with the requested and the free bytes.
    [[nodiscard]] virtual Buffer allocate(std::size_t bytes) = 0;
    /// Host memory that Stream::copy moves fastest (pinned where the device benefits from it).
    [[nodiscard]] virtual Buffer allocate_host(std::size_t bytes) = 0;
    [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;
    [[nodiscard]] virtual DeviceMemory memory() const = 0;
};

/// The CPU as a device. @param threads size of the thread team its kernels use, >= 1.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(int threads);

/// GPU `index`. Errors: DeviceError when this build has no CUDA or no code for the GPU, the machine
/// no driver or no such GPU; the message says which.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int index);

/// Facts about the CUDA backend that are known without using a GPU.
struct CudaStatus {
    bool compiled = false;  ///< built with the toolkit
    int device_count = 0;   ///< GPUs that the driver reports, 0 without a driver
    std::string detail;     ///< versions, or the reason why there is no GPU
};
[[nodiscard]] CudaStatus cuda_status();

/// GPUs that `--device auto` may take.
struct UsableGpus {
    int count = 0;       ///< the first `count` GPUs that the driver reports are usable
    int reported = 0;    ///< GPUs that the driver reports, usable or not
    std::string detail;  ///< versions, or the reason why none is usable
};
/// GPUs that the program was built for, up to the first that it was not built for (CUDA lists the
/// fastest first), if cuDNN and cuBLASLt are installed and new enough. Opens both libraries, makes
/// no context.
[[nodiscard]] UsableGpus usable_gpus();

/// Logs one line that says why `--device auto` uses the CPU; no line when the driver reports no
/// GPU.
void warn_of_unused_gpus();

/// Instruction set oneDNN will use here, e.g. "avx512_core".
[[nodiscard]] std::string cpu_isa();
/// Why that is not what ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA says: a level that the processor
/// lacks, or no level at all, which oneDNN passes over in silence. Empty: it is, or none is set.
/// The first CPU device of a process logs it.
[[nodiscard]] std::string cpu_isa_doubt();
/// oneDNN's version, e.g. "2.6.3".
[[nodiscard]] std::string dnnl_version_text();

/// Whether `--device` can have this value, whatever devices there are here.
[[nodiscard]] bool is_device_name(std::string_view name) noexcept;

/// Makes the device named by `--device`: "cpu", "cuda", "cuda:1", or "auto": the first usable GPU
/// if there is one, else the CPU (see usable_gpus()). Errors: UsageError for another name; those of
/// make_cuda_device.
[[nodiscard]] std::unique_ptr<Device> make_device(std::string_view name, int threads);

}  // namespace cohort
