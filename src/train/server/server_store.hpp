#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "train/protocol/shards.hpp"
#include "train/run/snapshot.hpp"
#include "train/server/server_device.hpp"

namespace cohort {

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

    /// sgd: along which releases look ahead, normalised; else empty.
    [[nodiscard]] std::span<const float> velocity();
    /// The lag by which a release of `lag` looks ahead: only sgd has a velocity to look along.
    [[nodiscard]] double look_ahead_lag(double lag) const noexcept {
        return kind_ == OptimizerKind::kSgd && lag > 0 ? lag : 0;
    }
    /// Applies a piece of an update that ShardDevice::gradient() holds; the host's copies of the
    /// parameters and the velocity follow.
    void apply_on_device(std::int64_t at, std::int64_t n);

private:
    void fill_device();

    const Graph& graph_;
    ShardRange range_;
    OptimizerKind kind_;
    Buffer theta_;                          ///< [range_.floats()]: parameters, then state
    std::unique_ptr<Optimizer> optimizer_;  ///< null: the other device's
    std::unique_ptr<ShardDevice> other_;    ///< null: everything is in host memory
    std::vector<float> velocity_;           ///< sgd: the host's copy of the other device's
};

}  // namespace cohort
