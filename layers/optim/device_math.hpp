#pragma once

#include <memory>
#include <span>

#include "cohort/core/interface.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// Sums over long vectors in a device's memory, queued on a stream; the results are the same from
/// run to run. Not thread safe.
class DeviceMath : public Interface {
public:
    /// to = factor * from, rounded once per element. Equal sizes; may be the same memory.
    virtual void scale_into(std::span<float> to, std::span<const float> from, float factor) = 0;
    /// to += factor * from, product and sum rounded each. Equal sizes.
    virtual void add_scaled(std::span<float> to, std::span<const float> from, float factor) = 0;

    /// Adds the squares of a piece to a sum in double precision, whose order is that of the calls.
    virtual void add_squares(std::span<const float> piece) = 0;
    /// The sum since the call before; waits for the stream. Infinite or NaN exactly when an element
    /// is, or when the sum is beyond double precision. Errors: DeviceError.
    [[nodiscard]] virtual double take_squares() = 0;
};

/// @param device, stream  must outlive it. Errors: DeviceError.
[[nodiscard]] std::unique_ptr<DeviceMath> make_device_math(Device& device, Stream& stream);

[[nodiscard]] std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& stream);

}  // namespace cohort
