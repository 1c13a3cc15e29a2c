#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/model/replica.hpp"
#include "support/layers/reference_network.hpp"

namespace cohort::test {

/// A batch that owns its data.
struct OwnedBatch {
    std::vector<float> samples;
    std::vector<std::int32_t> tokens;  ///< in place of the samples
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> ids;
    std::vector<float> targets;  ///< of a regression
    std::uint32_t epoch = 0;

    [[nodiscard]] BatchView view() const {
        return {.samples = samples.data(),
                .labels = labels.data(),
                .sample_ids = ids.data(),
                .size = static_cast<std::int64_t>(ids.size()),
                .epoch = epoch,
                .targets = targets.empty() ? nullptr : targets.data(),
                .tokens = tokens.empty() ? nullptr : tokens.data()};
    }
};

/// Standard normal samples or uniform tokens, uniform labels and, for a regression, standard normal
/// targets; ids are neither consecutive nor sorted.
[[nodiscard]] OwnedBatch random_batch(const Graph& graph, std::int64_t size, std::uint64_t seed);

/// Initial values, with what starts at 0 or 1 moved away from it, so that nothing is neutral.
void randomise(Replica& replica, std::uint64_t seed);

/// A replica on a device of its own.
struct OwnedReplica {
    /// On the CPU.
    OwnedReplica(const Graph& graph, int threads, bool deterministic = false);
    OwnedReplica(const Graph& graph, std::unique_ptr<Device> on, const ReplicaOptions& options);
    std::unique_ptr<Device> device;
    Replica replica;
};

/// Copies between host memory and a replica's flat buffers, wherever those are; waits.
[[nodiscard]] std::vector<float> host_copy(const Replica& replica, std::span<const float> from);
void assign(const Replica& replica, std::span<float> to, std::span<const float> from);
void assign(const Replica& replica, std::span<float> to, float value);

[[nodiscard]] ReferenceBatch reference_batch(const Twin& twin, const OwnedBatch& batch,
                                             std::uint64_t seed);
[[nodiscard]] ReferenceResult run_reference(const Twin& twin, Replica& replica,
                                            const OwnedBatch& batch, std::uint64_t seed,
                                            bool training, Rounding rounded = nullptr);

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
    /// A tensor's error and scale are root mean squares instead of largest elements, and samples
    /// whose two best logits are closer than the tolerance may count as correct or not: for types
    /// in which single elements fall on the other side of a kink.
    bool in_norm = false;
    /// Of a short type: a limit is no less than what the reference itself, rounded like that,
    /// leaves room for. See RoughReferences.
    std::vector<Rounding> roundings;
    /// expect_matches takes parameters and samples for which these roundings carry no element over
    /// a kink. See clear_kinks.
    bool clear_of_kinks = false;
    /// Gradients of filters may be rounded once more: each element may be off by this share of
    /// itself before its error counts.
    double filter_rounding = 0;
};

/// How far one range of a flat buffer is from what is wanted.
struct Deviation {
    double error = 0;
    double scale = 0;        ///< of what is wanted, by the same measure
    std::int64_t worst = 0;  ///< element of the buffer with the largest error
};
/// @param rounding  what each element may be off by, relative to itself, and is not counted
[[nodiscard]] Deviation deviation(const FlatRange& range, std::span<const float> got,
                                  const std::vector<double>& wanted, bool in_norm,
                                  double rounding = 0);

/// What the reference has when it rounds, once for each rounding; made when it is asked for.
///
/// They are samples of what good computations are off by. Room is left for half as much again as
/// what is four standard deviations above their mean: of normal errors one in 10^6 is off by that
/// much in a tensor of one element (fewer in larger ones, whose norms vary less), another kernel
/// may round at other places, and truncation, which is off by twice as much, is beyond it. That
/// counts on errors being sums of many small ones, so that nothing may be close to a kink
/// (clear_kinks): where one element on the other side of a ReLU is most of the error, sixteen
/// roundings without it say nothing about the next.
class RoughReferences {
public:
    /// None: nothing is rounded.
    RoughReferences() = default;
    RoughReferences(std::vector<Rounding> roundings, std::function<ReferenceResult(Rounding)> run)
        : roundings_(std::move(roundings)), run_(std::move(run)) {}
    /// `limit`, or if `error` is beyond it the most of it and of what they leave room for.
    /// @param off  what a result is off by
    [[nodiscard]] double widened(double limit, double error,
                                 const std::function<double(const ReferenceResult&)>& off);

private:
    std::vector<Rounding> roundings_;
    std::function<ReferenceResult(Rounding)> run_;
    std::vector<ReferenceResult> made_;
};

struct CheckedRange {
    FlatRange range;
    Deviation found;
    double limit = 0;  ///< of the error
};
/// Every range of a flat buffer; a range's scale is at least a twentieth of the largest of all.
/// @param part  what `wanted` is of a result: that of rounded references is looked at
[[nodiscard]] std::vector<CheckedRange> check_layout(const FlatLayout& layout,
                                                     std::span<const float> got,
                                                     const std::vector<double>& wanted,
                                                     RoughReferences& rough,
                                                     std::vector<double> ReferenceResult::*part,
                                                     const CheckOptions& options);
/// No range is beyond its limit.
void expect_layout(const FlatLayout& layout, std::span<const float> got,
                   const std::vector<double>& wanted, RoughReferences& rough,
                   std::vector<double> ReferenceResult::*part, const CheckOptions& options);
/// The same without rounded references.
void expect_layout(const FlatLayout& layout, std::span<const float> got,
                   const std::vector<double>& wanted, const CheckOptions& options);

/// Loss, every parameter gradient, the batch statistics of a training step and the logits in
/// inference, against the reference.
void expect_step_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                         const CheckOptions& options = {});

/// The part in inference.
void expect_inference_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                              const CheckOptions& options = {});

/// expect_step_matches on a random batch of each size, for replicas of one graph.
void expect_matches(const Twin& twin, const std::vector<Replica*>& replicas,
                    const std::vector<std::int64_t>& sizes, const CheckOptions& options = {});
/// The same for one.
void expect_matches(const Twin& twin, Replica& replica, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options = {});
/// The same on a new replica on the CPU.
void expect_matches(const Twin& twin, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options = {});

/// Largest absolute value.
[[nodiscard]] double largest(const std::vector<double>& values);

}  // namespace cohort::test
