#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/tensor/device.hpp"

namespace cohort {

/// A communicator that sums device memory over its members: NCCL's, or in tests one that works on
/// host memory. Calls return at once; the thread that made it calls it.
class DeviceSums {
public:
    enum class State : std::uint8_t {
        kWorking,  ///< being made, or still queueing the last all_reduce(): neither another may be
                   ///< called yet, nor is what is queued on its stream now behind it
        kReady,
        kFailed  ///< a member is lost, or the library has failed: only abort() may follow
    };
    DeviceSums() = default;
    DeviceSums(const DeviceSums&) = delete;
    DeviceSums& operator=(const DeviceSums&) = delete;
    virtual ~DeviceSums() = default;

    [[nodiscard]] virtual State state() = 0;
    /// The library's words for kFailed.
    [[nodiscard]] virtual std::string error() const = 0;
    /// Queues on `on`: buffer[0, floats) becomes the sum over all members. The same calls in the
    /// same order on all of them.
    virtual void all_reduce(float* buffer, std::int64_t floats, Stream& on) = 0;
    /// Tells the library, once it is kReady, of memory that sums will be made in, so that peers may
    /// reach it without copies. It stays until the communicator ends. A library that cannot use
    /// that goes on without.
    virtual void register_buffer(void* data, std::size_t bytes) = 0;
    /// Ends what is in flight, on this member, without the others. Called before destruction when a
    /// member was lost or it could not be made; otherwise the destructor waits for the others to
    /// let go too, for some seconds at most.
    virtual void abort() noexcept = 0;
};

/// What makes communicators.
class DeviceSumsLibrary {
public:
    DeviceSumsLibrary() = default;
    DeviceSumsLibrary(const DeviceSumsLibrary&) = delete;
    DeviceSumsLibrary& operator=(const DeviceSumsLibrary&) = delete;
    virtual ~DeviceSumsLibrary() = default;

    static constexpr std::size_t kMostIdBytes = 128;
    /// Names a communicator to be; the first member asks for it and tells the others.
    [[nodiscard]] virtual std::string new_id() = 0;
    /// Begins to make it; see DeviceSums::state(). @param self  index among `members`
    /// Errors: DeviceError.
    [[nodiscard]] virtual std::unique_ptr<DeviceSums> join(const std::string& id, int members,
                                                           int self, Device& device) = 0;
    /// The stream of sums: what is queued there goes before other work of the device.
    [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(Device& device) = 0;
    /// Memory for sums. Errors: OutOfMemory.
    [[nodiscard]] virtual Buffer allocate(Device& device, std::size_t bytes) = 0;
    /// Size of a sum, > 0: large enough that the start of one is little beside it.
    [[nodiscard]] virtual std::int64_t piece_bytes() const noexcept = 0;
    /// What must differ between members: "cluster-node-3 0000:1b:00.0".
    [[nodiscard]] virtual std::string place(const Device& device) const = 0;
};

/// NCCL. Errors: DeviceError when this build or machine has none.
[[nodiscard]] DeviceSumsLibrary& nccl_library();

}  // namespace cohort
