#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor/buffer_pool.hpp"
#include "layers/optim/mean_gradient.hpp"
#include "layers/optim/released_copies.hpp"
#include "train/protocol/protocol.hpp"
#include "train/server/server_staging.hpp"
#include "train/server/server_store.hpp"

namespace cohort {

/// What an update leaves: parameters that do not change any more, each [ShardRange::floats()],
/// parameters, then state; with Wire::kBf16 behind them the same as it travels, see PulledBytes.
/// They live as long as they are held.
struct FireOutput {
    struct Copy {
        double lag = 0;  ///< reference batches looked ahead; 0: the parameters themselves
        std::shared_ptr<float> values;
    };
    std::vector<Copy> copies;  ///< one per lag that was asked for
    bool ready = false;        ///< filled already: there was a snapshot of this version

    /// The copy of that lag; null when there is none.
    [[nodiscard]] std::shared_ptr<const float> find(double lag) const;
};

/// Carries out updates of a shard: accumulate, apply, copy in one pass over the shard in blocks
/// that stay in the cache, finished in steps that may be sent while the rest is still computed.
/// Memory traffic for n pushes, in shards: n + 2 (parameters) + 2 for each of the
/// optimizer's slots + 1 per copy, and the slots again for one that looks ahead.
class FireRunner {
public:
    FireRunner(ShardStore& store, Device& host, int threads, Wire wire);

    /// @param final  called as it proceeds: the first `floats` of every copy are final
    /// @return the squared norm of the gradient, if the order asks for it
    double run(const FireOrder& order, const MeanGradient& mean, const FireOutput& output,
               const std::function<void(std::int64_t floats)>& final);

private:
    struct Job {
        const FireOrder& order;
        const MeanGradient& mean;
        const FireOutput& output;
    };

    void begin_update(const Job& job);
    double run_steps(const Job& job, const std::function<void(std::int64_t)>& final);
    double run_step(const Job& job, std::int64_t begin, std::int64_t end, float* sum);
    double run_device_step(const Job& job, std::int64_t begin, std::int64_t end);
    void copy_block(const Job& job, std::int64_t at, std::int64_t n) const;

    ShardStore& store_;
    Device& host_;
    Wire wire_;
    std::vector<Buffer> sums_;  ///< scratch of each thread
};

/// The memory of one parameter server: its parameters and state, the optimizer with its state,
/// pushes that wait, snapshots that are in flight. It sends nothing. staging() is thread safe, the
/// rest belongs to one thread.
class ServerShard {
public:
    /// @param threads that apply updates, >= 1  @param device  where parameters and optimizer lie
    /// and updates are applied, with a copy of the parameters here; null: host memory and `threads`
    /// Errors: DeviceError when memory is short.
    ServerShard(const Graph& graph, const ShardRange& range, const OptimizerOptions& optimizer,
                int threads, std::unique_ptr<Device> device = nullptr, Wire wire = Wire::kF32);

    /// Initial parameters, as ShardStore::initialise gives them.
    void initialise(std::uint64_t seed, std::int64_t version);
    /// Continues from a checkpoint's range. Errors: those of ShardStore::restore.
    void restore(const ShardSnapshot& snapshot);
    /// A copy of everything, for a checkpoint.
    [[nodiscard]] ShardSnapshot capture() { return store_.capture(version_); }
    /// Owns another part of the parameters from now on. Pushes, the reference and what a delay
    /// compensation would need of releases before are forgotten.
    /// @param snapshot  of that part and this version  @param layout  its number
    void resize(const ShardRange& range, const ShardSnapshot& snapshot, std::uint32_t layout);

    [[nodiscard]] const ShardStore& store() const noexcept { return store_; }
    [[nodiscard]] const ShardRange& range() const noexcept { return store_.range(); }
    [[nodiscard]] std::int64_t version() const noexcept { return version_; }
    [[nodiscard]] PushStaging& staging() noexcept { return staging_; }
    [[nodiscard]] const PushStaging& staging() const noexcept { return staging_; }

    /// Buffers for what the order releases and gathers. Errors: PeerError for a version that is not
    /// the next one (without pushes: the current one).
    [[nodiscard]] FireOutput prepare(const FireOrder& order);
    /// Carries the order out from the first float to the last: sums its pushes, updates, copies.
    /// @param output prepare()'s for this order
    /// @param final  called as it proceeds: the first `floats` of every copy are final
    /// @return the squared norm of this part of the mean gradient, if the order asks for it.
    /// Errors: PeerError, UsageError for numbers that no update can have.
    double fire(const FireOrder& order, const FireOutput& output,
                const std::function<void(std::int64_t floats)>& final);
    /// All of a copy that prepare() made, as it is sent. @param wire  that of the job, or kF32
    [[nodiscard]] std::span<const std::byte> as_sent(const float* copy, Wire wire) const noexcept;
    /// An update whose pushes are all discarded: only the version changes.
    void skip_to(std::int64_t version);

    /// A staged push becomes the reference that compare() uses. Errors: PeerError when it has not
    /// been received.
    void set_reference(const PushId& push);
    /// Fills in what the reference says of a push that has been received.
    void compare(PushReceived& staged) const;

    /// Most bytes of released parameters alive at any time, including those that a delay
    /// compensation may still need.
    [[nodiscard]] std::uint64_t snapshot_bytes_most() const { return snapshots_->bytes_most(); }

private:
    void check_version(const FireOrder& order) const;
    [[nodiscard]] std::vector<std::shared_ptr<const float>> take_released(const FireOrder& order);
    void remember_releases(const FireOrder& order, const FireOutput& output);

    std::unique_ptr<Device> host_;
    std::unique_ptr<Stream> stream_;
    Wire wire_;
    ShardStore store_;
    FireRunner runner_;
    std::unique_ptr<BufferPool> snapshots_;
    PushStaging staging_;
    std::int64_t version_ = 0;
    std::weak_ptr<float> current_;  ///< parameters of version_, while they are held
    ReleasedCopies released_;       ///< kept only while orders ask for a delay compensation
    ReferencePush reference_;
};

}  // namespace cohort
