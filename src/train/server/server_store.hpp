#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/tensor/device.hpp"
#include "train/checkpoint/snapshot.hpp"
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
    /// What is left serves for nothing; it is to be destroyed before the device.
    [[nodiscard]] std::unique_ptr<Device> take_device() noexcept { return std::move(device_); }

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
    /// of the parameters there. Errors: those of Optimizer::apply; DeviceError.
    void apply(std::int64_t at, std::span<float> theta);
    /// Along what the parameters [at, at + n) go on, n <= kPiece, in host memory that the next call
    /// overwrites.
    [[nodiscard]] LookAhead look_ahead(std::int64_t at, std::int64_t n);

private:
    void copy(float* to, std::span<const float> from);

    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    std::size_t piece_;
    Buffer theta_;
    Buffer gradient_;
    Buffer host_gradient_;
    std::unique_ptr<Optimizer> optimizer_;
    std::vector<float> first_;  ///< of look_ahead
    std::vector<float> second_;
};

/// Parameters, state and optimizer of one shard, in host memory or on another device with a copy of
/// the parameters here.
class ShardStore {
public:
    /// @param host  the CPU device that works for this shard  @param stream  of that device
    /// @param device  where parameters and optimizer lie; null: host memory
    /// Errors: DeviceError when memory is short.
    ShardStore(const Graph& graph, const ShardRange& range, const OptimizerOptions& optimizer,
               Device& host, Stream& stream, std::unique_ptr<Device> device);

    /// Initial parameters, the same numbers as Replica::initialise gives.
    void initialise(std::uint64_t seed);
    /// Continues from a checkpoint's range. Errors: FileError when it is another range or of
    /// another optimizer.
    void restore(const ShardSnapshot& snapshot);
    /// A copy of everything, for a checkpoint.
    [[nodiscard]] ShardSnapshot capture(std::int64_t version);
    /// Owns another part of the parameters from now on, whose values restore() brings.
    /// Errors: DeviceError.
    void resize(const ShardRange& range);

    /// Where parameters lie: "cpu", or the other device's description.
    [[nodiscard]] std::string device() const {
        return other_ ? other_->device().description() : "cpu";
    }
    [[nodiscard]] const ShardRange& range() const noexcept { return range_; }
    /// The host's copy of the parameters, and the state.
    [[nodiscard]] std::span<const float> parameters() const noexcept;
    [[nodiscard]] std::span<const float> state() const noexcept;
    [[nodiscard]] std::span<float> parameters() noexcept;
    [[nodiscard]] std::span<float> state() noexcept;
    [[nodiscard]] Optimizer& optimizer() noexcept {
        return other_ ? other_->optimizer() : *optimizer_;
    }
    /// Null: everything is in host memory.
    [[nodiscard]] ShardDevice* other_device() const noexcept { return other_.get(); }

    /// Along what the parameters [at, at + n) go on, in host memory. From several threads at once
    /// where there is no other device, else see ShardDevice::look_ahead.
    [[nodiscard]] LookAhead look_ahead(std::int64_t at, std::int64_t n) const;
    /// Applies a piece of an update that ShardDevice::gradient() holds; the host's copy of the
    /// parameters follows.
    void apply_on_device(std::int64_t at, std::int64_t n);

private:
    void fill_device();

    const Graph& graph_;
    Device& host_;
    Stream& stream_;
    OptimizerOptions options_;
    ShardRange range_;
    Buffer theta_;                          ///< [range_.floats()]: parameters, then state
    std::unique_ptr<Optimizer> optimizer_;  ///< null: the other device's
    std::unique_ptr<ShardDevice> other_;    ///< null: everything is in host memory
};

}  // namespace cohort
