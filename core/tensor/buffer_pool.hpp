#pragma once

#include <cstdint>
#include <memory>

#include "cohort/tensor/device.hpp"

namespace cohort {

/// Buffers of one size, lent by reference count: the last owner's release, on any thread, returns a
/// buffer to the pool. The pool keeps as many buffers as were ever lent at a time; a lent buffer
/// outlives the pool. Thread safe.
class BufferPool {
public:
    /// @param device makes the memory; must outlive the pool  @param floats in each buffer
    BufferPool(Device& device, std::int64_t floats);

    /// A buffer of undefined contents, 64-byte aligned. Errors: DeviceError.
    [[nodiscard]] std::shared_ptr<float> take();
    [[nodiscard]] std::int64_t floats() const noexcept { return floats_; }
    /// Largest number of bytes lent at any time.
    [[nodiscard]] std::uint64_t bytes_most() const;

private:
    struct State;
    Device& device_;
    std::int64_t floats_;
    std::shared_ptr<State> state_;
};

}  // namespace cohort
