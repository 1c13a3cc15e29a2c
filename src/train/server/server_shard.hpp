#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "optim/released_copies.hpp"
#include "optim/weighted_sum.hpp"
#include "tensor/buffer_pool.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/shards.hpp"
#include "train/run/snapshot.hpp"
#include "train/server/server_device.hpp"
#include "train/server/server_staging.hpp"

namespace cohort {

/// What an update leaves: parameters that nobody changes, each [ShardRange::floats()], parameters,
/// then state. They live as long as somebody holds them.
struct FireOutput {
    struct Copy {
        double lag = 0;  ///< reference batches looked ahead; 0: the parameters themselves
        std::shared_ptr<float> values;
    };
    std::vector<Copy> copies;  ///< one per lag that was asked for
    bool ready = false;        ///< filled already: a snapshot of this version was there

    /// The copy of that lag; null when there is none.
    [[nodiscard]] std::shared_ptr<const float> find(double lag) const;
};

/// The memory of one parameter server: its parameters and state, the optimizer with its state,
/// pushes that wait, snapshots that are on their way. It sends nothing. staging() is thread safe,
/// the rest belongs to one thread.
class ServerShard {
public:
    /// @param threads that apply updates, >= 1  @param device  where parameters and optimizer lie
    /// and updates are applied, with a copy of the parameters here; null: host memory and `threads`
    /// Errors: DeviceError when memory is short.
    ServerShard(const Graph& graph, const ShardRange& range, const OptimizerOptions& optimizer,
                int threads, std::unique_ptr<Device> device = nullptr);
    ServerShard(const ServerShard&) = delete;
    ServerShard& operator=(const ServerShard&) = delete;
    ~ServerShard();

    /// Initial parameters, the same numbers as Replica::initialise gives.
    void initialise(std::uint64_t seed, std::int64_t version);
    /// Goes on from a checkpoint's range. Errors: FileError when it is another range or of another
    /// optimizer.
    void restore(const ShardSnapshot& snapshot);
    /// A copy of everything, for a checkpoint.
    [[nodiscard]] ShardSnapshot capture();

    /// Where parameters lie: "cpu", or the other device's description.
    [[nodiscard]] std::string device() const {
        return other_ ? other_->device().description() : "cpu";
    }
    [[nodiscard]] const ShardRange& range() const noexcept { return range_; }
    [[nodiscard]] std::int64_t version() const noexcept { return version_; }
    [[nodiscard]] std::span<const float> parameters() const noexcept;
    [[nodiscard]] std::span<const float> state() const noexcept;
    [[nodiscard]] PushStaging& staging() noexcept { return staging_; }
    [[nodiscard]] const PushStaging& staging() const noexcept { return staging_; }

    /// Buffers for what the order releases and gathers. Errors: PeerError for a version that is not
    /// the next one (without pushes: the current one).
    [[nodiscard]] FireOutput prepare(const FireOrder& order);
    /// Carries the order out from the first float to the last: sums its pushes, updates, copies.
    /// @param output prepare()'s for this order
    /// @param final  called as it proceeds: the first `floats` of every copy are final
    /// Errors: PeerError, UsageError for numbers that no update can have.
    void fire(const FireOrder& order, const FireOutput& output,
              const std::function<void(std::int64_t floats)>& final);

    /// This shard's part of what the last fire's order asked.
    [[nodiscard]] const GradientAnswer& answer() const noexcept { return answer_; }

    /// An update has come to nothing: the version goes on, nothing else does.
    void skip_to(std::int64_t version);

    /// A staged push becomes what compare() compares with, in place of the one before. Errors:
    /// PeerError when it is not here.
    void set_reference(const PushId& push);
    /// Fills in what the reference says of a push that is here; nothing when there is none.
    void compare(Staged& staged) const;

    /// Most bytes of released parameters alive at any time, those included that
    /// a delay compensation may still need.
    [[nodiscard]] std::uint64_t snapshot_bytes_most() const { return snapshots_.bytes_most(); }

    /// The lag that a release of `lag` looks ahead by: only sgd has a velocity to look along.
    [[nodiscard]] double look_ahead_lag(double lag) const noexcept;

private:
    struct Job {
        const FireOrder& order;
        const FireOutput& output;
        std::vector<std::shared_ptr<const float>> pushes;
        std::vector<std::shared_ptr<const float>> released;
        std::vector<SumTerm> terms;
        std::span<const float> velocity;  ///< normalised, for the look-ahead; else empty
        double momentum = 0;
    };

    [[nodiscard]] Job make_job(const FireOrder& order, const FireOutput& output);
    void fold_statistics(const Job& job);
    void begin_update(const FireOrder& order);
    void remember_releases(const FireOrder& order, const FireOutput& output);
    void run_steps(const Job& job, const std::function<void(std::int64_t)>& final);
    GradientAnswer run_step(const Job& job, std::int64_t begin, std::int64_t end, float* sum);
    GradientAnswer run_device_step(const Job& job, std::int64_t begin, std::int64_t end);
    [[nodiscard]] Optimizer& optimizer() noexcept;
    void follow_first_slot();
    [[nodiscard]] const float* gradient_of(const Job& job, std::int64_t at, std::int64_t n,
                                           float* sum) const;
    void copy_block(const Job& job, std::int64_t at, std::int64_t n) const;
    void question(const Job& job, std::int64_t at, std::span<const float> gradient,
                  GradientAnswer& answer);
    void prepare_scratch(int threads);
    [[nodiscard]] std::span<float> theta() noexcept;

    const Graph& graph_;
    ShardRange range_;
    OptimizerKind kind_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    Buffer theta_;                          ///< [range_.floats()]: parameters, then state
    std::unique_ptr<Optimizer> optimizer_;  ///< null: the other device's
    std::unique_ptr<ShardDevice> other_;    ///< null: all is on the host
    std::vector<float> velocity_;           ///< sgd: the host's copy of the other device's
    std::vector<Buffer> sums_;              ///< scratch of each thread
    BufferPool snapshots_;
    PushStaging staging_;
    std::int64_t version_ = 0;
    std::weak_ptr<float> current_;  ///< parameters of version_, while somebody holds them
    ReleasedCopies released_;       ///< kept only while orders ask for a delay compensation
    std::shared_ptr<const float> reference_;
    double reference_squares_ = 0;
    std::vector<float> kept_;  ///< the mean gradient that later ones are compared with
    GradientAnswer answer_;
};

}  // namespace cohort
