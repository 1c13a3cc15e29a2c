#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "optim/mean_gradient.hpp"
#include "train/protocol/protocol.hpp"
#include "train/server/server_store.hpp"

namespace cohort {

/// What an update leaves: parameters that do not change any more, each [ShardRange::floats()],
/// parameters, then state. They live as long as they are held.
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
/// Memory traffic for n pushes, in shards: n + 2 (parameters) + 2 (velocity, sgd) + 1 per copy.
class FireRunner {
public:
    FireRunner(ShardStore& store, Device& host, int threads);

    /// @param final  called as it proceeds: the first `floats` of every copy are final
    /// @return what the order asked about the gradient
    GradientAnswer run(const FireOrder& order, const MeanGradient& mean, const FireOutput& output,
                       const std::function<void(std::int64_t floats)>& final);

private:
    struct Job {
        const FireOrder& order;
        const MeanGradient& mean;
        const FireOutput& output;
        std::span<const float> velocity;  ///< for the look-ahead
        double momentum = 0;
    };

    void begin_update(const Job& job);
    GradientAnswer run_steps(const Job& job, const std::function<void(std::int64_t)>& final);
    GradientAnswer run_step(const Job& job, std::int64_t begin, std::int64_t end, float* sum);
    GradientAnswer run_device_step(const Job& job, std::int64_t begin, std::int64_t end);
    void copy_block(const Job& job, std::int64_t at, std::int64_t n) const;

    ShardStore& store_;
    Device& host_;
    std::vector<Buffer> sums_;  ///< scratch of each thread
    GradientKeeper keeper_;
};

}  // namespace cohort
