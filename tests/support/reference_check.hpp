#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/model/replica.hpp"
#include "support/reference_network.hpp"

namespace cohort::test {

/// A batch that owns its data.
struct OwnedBatch {
    std::vector<float> samples;
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> ids;
    std::vector<float> targets;  ///< of a regression
    std::uint32_t epoch = 0;

    [[nodiscard]] BatchView view() const {
        return {.samples = samples.data(),
                .labels = labels.data(),
                .sample_ids = ids.data(),
                .size = static_cast<std::int64_t>(labels.size()),
                .epoch = epoch,
                .targets = targets.empty() ? nullptr : targets.data()};
    }
};

/// Standard normal samples, uniform labels and, for a regression, standard normal targets; ids are
/// neither consecutive nor sorted.
[[nodiscard]] OwnedBatch random_batch(const Graph& graph, std::int64_t size, std::uint64_t seed);

/// Initial values, with what starts at 0 or 1 moved away from it, so that nothing is neutral.
void randomise(Replica& replica, std::uint64_t seed);

/// A replica on a CPU device of its own.
struct OwnedReplica {
    OwnedReplica(const Graph& graph, int threads, bool deterministic = false);
    std::unique_ptr<Device> device;
    Replica replica;
};

[[nodiscard]] ReferenceResult run_reference(const Twin& twin, Replica& replica,
                                            const OwnedBatch& batch, std::uint64_t seed,
                                            bool training);

/// Limits on the largest error, relative to the largest value of the tensor compared. A gradient's
/// scale is at least a twentieth of the largest of all gradients: sums that cancel to zero (the
/// bias before a batch norm) have no scale of their own.
inline constexpr double kDirectTolerance = 2e-5;
inline constexpr double kWinogradTolerance = 2e-4;

struct CheckOptions {
    int threads = 1;
    bool deterministic = false;
    double tolerance = kDirectTolerance;
    std::uint64_t seed = 1;
};

/// Loss, every parameter gradient, the batch statistics of a training step and the logits in
/// inference, against the reference.
void expect_step_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                         const CheckOptions& options = {});

/// expect_step_matches on a new replica and a random batch of each size.
void expect_matches(const Twin& twin, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options = {});

/// Largest absolute value.
[[nodiscard]] double largest(const std::vector<double>& values);

}  // namespace cohort::test
