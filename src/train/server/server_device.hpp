#pragma once

#include <memory>
#include <span>
#include <string>

#include "cohort/comm/rank_map.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/tensor/device.hpp"
#include "train/protocol/shards.hpp"

namespace cohort {

/// The device of a server's shard; null: host memory. @param option  see device_of_rank
/// Errors: those of make_device.
[[nodiscard]] std::unique_ptr<Device> make_shard_device(const std::string& option,
                                                        const RankMap& map, int server);

/// A shard's parameters and optimizer in the memory of a device. Gradients are summed on the host
/// and come in pieces; the host's copy of the parameters, from which they are sent, follows.
class ShardDevice {
public:
    /// Floats of a piece that is copied at a time.
    static constexpr std::int64_t kPiece = std::int64_t{1} << 20;

    /// Errors: DeviceError.
    ShardDevice(std::unique_ptr<Device> device, const FlatLayout& layout, const ShardRange& range,
                const OptimizerOptions& optimizer);

    [[nodiscard]] Device& device() noexcept { return *device_; }
    [[nodiscard]] Optimizer& optimizer() noexcept { return *optimizer_; }
    /// Memory for the gradient of a piece: [kPiece] or, of a smaller shard, its parameters.
    [[nodiscard]] std::span<float> gradient() const noexcept;

    /// Parameters of the whole shard, from the host.
    void set_parameters(std::span<const float> values);
    /// Slot `index` of the optimizer, from the host and to it.
    void set_slot(std::size_t index, std::span<const float> values);
    void get_slot(std::size_t index, std::span<float> values);
    /// An update's piece at `at` with what gradient() begins with. `theta` becomes the host's copy
    /// of the parameters there, and of slot 0 `first_slot` (empty: not wanted). Errors: those of
    /// Optimizer::apply; DeviceError.
    void apply(std::int64_t at, std::span<float> theta, std::span<float> first_slot);

private:
    void copy(float* to, std::span<const float> from);

    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    std::size_t piece_;
    Buffer theta_;
    Buffer gradient_;
    Buffer host_gradient_;
    std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace cohort
