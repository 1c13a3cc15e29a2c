#pragma once

#include <span>
#include <vector>

#include "cohort/tensor/device.hpp"

namespace cohort::test {

/// Floats in a device's memory.
class DeviceVector {
public:
    DeviceVector(Device& device, Stream& stream, const std::vector<float>& values)
        : stream_(stream), buffer_(device.allocate(values.size() * sizeof(float))) {
        stream_.copy(buffer_.data(), values.data(), values.size() * sizeof(float));
        stream_.synchronize();
    }
    [[nodiscard]] std::span<float> span() const {
        return {buffer_.floats(), buffer_.bytes() / sizeof(float)};
    }
    /// What it holds now, in host memory; waits.
    [[nodiscard]] std::vector<float> values() const { return copy_of(stream_, span()); }

    [[nodiscard]] static std::vector<float> copy_of(Stream& stream, std::span<const float> from) {
        std::vector<float> values(from.size());
        stream.copy(values.data(), from.data(), from.size_bytes());
        stream.synchronize();
        return values;
    }

private:
    Stream& stream_;
    Buffer buffer_;
};

}  // namespace cohort::test
