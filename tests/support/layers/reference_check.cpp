#include "support/layers/reference_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "cohort/core/rng.hpp"
#include "support/layers/reference_kinks.hpp"

namespace cohort::test {
namespace {

constexpr double kLeastScale = 0.05;
constexpr std::int64_t kFilterRank = 4;  // [outputs, inputs, height, width]
/// What is left room for: see RoughReferences.
constexpr double kRoughRoom = 1.5;
constexpr double kRoughDeviations = 4;

using Part = std::vector<double> ReferenceResult::*;

/// What is left of an error; NaN stays.
double beyond(double error, double allowed) {
    return error <= allowed ? 0 : error - allowed;
}

CheckedRange check_range(const FlatRange& range, std::span<const float> got,
                         const std::vector<double>& wanted, RoughReferences& rough, Part part,
                         const CheckOptions& options, double least_scale) {
    const double rounding = range.shape.rank() == kFilterRank ? options.filter_rounding : 0;
    const Deviation found = deviation(range, got, wanted, options.in_norm, rounding);
    const double limit =
        rough.widened(options.tolerance * std::max(found.scale, least_scale), found.error,
                      [&](const ReferenceResult& rounded) {
                          const std::vector<double>& values = rounded.*part;
                          const std::vector<float> floats(values.begin(), values.end());
                          return deviation(range, floats, wanted, options.in_norm).error;
                      });
    return {.range = range, .found = found, .limit = limit};
}

void expect_range(const CheckedRange& checked, std::span<const float> got,
                  const std::vector<double>& wanted) {
    const auto& [range, found, limit] = checked;
    EXPECT_LE(found.error, limit) << range.name << "[" << found.worst - range.offset << "] of "
                                  << range.size << ": got "
                                  << got[static_cast<std::size_t>(found.worst)] << ", reference "
                                  << wanted[static_cast<std::size_t>(found.worst)];
}

/// Samples whose best two logits are too close for the tolerance to say which one is larger.
std::int64_t undecided(const std::vector<double>& logits, std::size_t classes,
                       const CheckOptions& options) {
    if (!options.in_norm || classes < 2) {
        return 0;
    }
    const double margin = 2 * options.tolerance * largest(logits);
    std::int64_t count = 0;
    for (std::size_t first = 0; first < logits.size(); first += classes) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first);
        std::vector<double> sample(begin, begin + static_cast<std::ptrdiff_t>(classes));
        std::nth_element(sample.begin(), sample.begin() + 1, sample.end(), std::greater<>());
        count += sample[0] - sample[1] < margin ? 1 : 0;
    }
    return count;
}

void expect_result(const BatchResult& got, const ReferenceResult& wanted, RoughReferences& rough,
                   std::int64_t samples, const CheckOptions& options) {
    EXPECT_EQ(got.samples, samples);
    const double limit = rough.widened(options.tolerance * std::max(1.0, wanted.loss_sum),
                                       std::abs(got.loss_sum - wanted.loss_sum),
                                       [&](const ReferenceResult& rounded) {
                                           return std::abs(rounded.loss_sum - wanted.loss_sum);
                                       });
    EXPECT_NEAR(got.loss_sum, wanted.loss_sum, limit);
    const std::size_t classes = wanted.logits.size() / static_cast<std::size_t>(samples);
    constexpr double kRounding = 1e-9;  // of sums of shares
    const double close =
        kRounding + static_cast<double>(undecided(wanted.logits, classes, options));
    const double off = std::abs(got.correct - wanted.correct);
    EXPECT_LE(off, rough.widened(close, off,
                                 [&](const ReferenceResult& rounded) {
                                     return std::abs(rounded.correct - wanted.correct);
                                 }))
        << "correct: got " << got.correct << ", reference " << wanted.correct;
}

/// All that is named outlives them, and parameters stay as they are meanwhile.
RoughReferences rough_references(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                                 const CheckOptions& options, bool training) {
    return {options.roundings, [&, training](Rounding rounding) {
                return run_reference(twin, replica, batch, options.seed, training, rounding);
            }};
}

}  // namespace

Deviation deviation(const FlatRange& range, std::span<const float> got,
                    const std::vector<double>& wanted, bool in_norm, double rounding) {
    Deviation found{.worst = range.offset};
    double most = 0;
    double squares = 0;
    double scale_squares = 0;
    for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double difference = beyond(std::abs(static_cast<double>(got[at]) - wanted[at]),
                                         rounding * std::abs(wanted[at]));
        squares += difference * difference;
        scale_squares += wanted[at] * wanted[at];
        found.scale = std::max(found.scale, std::abs(wanted[at]));
        if (!std::isnan(most) && !(difference <= most)) {  // the first NaN stays
            most = difference;
            found.worst = i;
        }
    }
    found.error = most;
    if (in_norm && range.size > 0) {
        found.error = std::sqrt(squares / static_cast<double>(range.size));
        found.scale = std::sqrt(scale_squares / static_cast<double>(range.size));
    }
    return found;
}

double RoughReferences::widened(double limit, double error,
                                const std::function<double(const ReferenceResult&)>& off) {
    if (error <= limit || roundings_.empty()) {
        return limit;
    }
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < roundings_.size(); ++i) {
        if (i == made_.size()) {
            made_.push_back(run_(roundings_[i]));
        }
        const double found = off(made_[i]);
        sum += found;
        squares += found * found;
    }
    const auto count = static_cast<double>(roundings_.size());
    const double mean = sum / count;
    const double variance = std::max(0.0, squares / count - mean * mean);
    return std::max(limit, kRoughRoom * (mean + kRoughDeviations * std::sqrt(variance)));
}

void expect_layout(const FlatLayout& layout, std::span<const float> got,
                   const std::vector<double>& wanted, const CheckOptions& options) {
    RoughReferences none;
    expect_layout(layout, got, wanted, none, nullptr, options);
}

void expect_layout(const FlatLayout& layout, std::span<const float> got,
                   const std::vector<double>& wanted, RoughReferences& rough, Part part,
                   const CheckOptions& options) {
    for (const CheckedRange& checked : check_layout(layout, got, wanted, rough, part, options)) {
        expect_range(checked, got, wanted);
    }
}

std::vector<CheckedRange> check_layout(const FlatLayout& layout, std::span<const float> got,
                                       const std::vector<double>& wanted, RoughReferences& rough,
                                       Part part, const CheckOptions& options) {
    double largest_scale = 0;
    for (const FlatRange& range : layout.ranges()) {
        largest_scale =
            std::max(largest_scale, deviation(range, got, wanted, options.in_norm).scale);
    }
    std::vector<CheckedRange> checked;
    for (const FlatRange& range : layout.ranges()) {
        checked.push_back(
            check_range(range, got, wanted, rough, part, options, kLeastScale * largest_scale));
    }
    return checked;
}

double largest(const std::vector<double>& values) {
    double result = 0;
    for (const double value : values) {
        result = std::max(result, std::abs(value));
    }
    return result;
}

OwnedBatch random_batch(const Graph& graph, std::int64_t size, std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kTest, static_cast<std::uint64_t>(size));
    OwnedBatch batch;
    const auto elements = static_cast<std::size_t>(size * graph.input_shape().elements());
    const auto below = [&](std::int64_t end) {
        return static_cast<std::int32_t>(rng.next_below(static_cast<std::uint32_t>(end)));
    };
    if (graph.reads_tokens()) {
        batch.tokens.resize(elements);
        std::generate(batch.tokens.begin(), batch.tokens.end(),
                      [&] { return below(graph.vocabulary()); });
    } else {
        batch.samples.resize(elements);
        std::generate(batch.samples.begin(), batch.samples.end(),
                      [&] { return rng.next_normal(); });
    }
    for (std::int64_t n = 0; n < size; ++n) {
        for (std::int64_t t = 0; t < graph.positions(); ++t) {
            batch.labels.push_back(below(graph.classes()));
        }
        batch.ids.push_back(1000000007LL * (size - n) + n * n);
    }
    if (graph.loss() == LossKind::kMeanSquaredError) {
        batch.targets.resize(static_cast<std::size_t>(size * graph.outputs()));
        std::generate(batch.targets.begin(), batch.targets.end(),
                      [&] { return rng.next_normal(); });
    }
    batch.epoch = 3;
    return batch;
}

void randomise(Replica& replica, std::uint64_t seed) {
    replica.initialise(seed);
    Rng rng(seed, RngPurpose::kTest, 77);
    const auto noise = [&] { return 0.8F * rng.next_uniform() - 0.4F; };
    std::vector<float> parameters = host_copy(replica, replica.parameters());
    for (const FlatRange& range : replica.graph().parameters().ranges()) {
        for (std::int64_t i = 0; !range.decay && i < range.size; ++i) {
            parameters[static_cast<std::size_t>(range.offset + i)] += noise();
        }
    }
    assign(replica, replica.parameters(), parameters);
    std::vector<float> state = host_copy(replica, replica.state());
    for (const FlatRange& range : replica.graph().state().ranges()) {
        for (std::int64_t i = 0; i < range.size; ++i) {
            state[static_cast<std::size_t>(range.offset + i)] += noise();
        }
    }
    assign(replica, replica.state(), state);
}

OwnedReplica::OwnedReplica(const Graph& graph, int threads, bool deterministic)
    : OwnedReplica(graph, make_cpu_device(threads), {.deterministic = deterministic}) {
}

OwnedReplica::OwnedReplica(const Graph& graph, std::unique_ptr<Device> on,
                           const ReplicaOptions& options)
    : device(std::move(on)), replica(graph, *device, options) {
}

std::vector<float> host_copy(const Replica& replica, std::span<const float> from) {
    std::vector<float> to(from.size());
    replica.stream().copy(to.data(), from.data(), from.size_bytes());
    replica.stream().synchronize();
    return to;
}

void assign(const Replica& replica, std::span<float> to, std::span<const float> from) {
    ASSERT_EQ(to.size(), from.size());
    replica.stream().copy(to.data(), from.data(), from.size_bytes());
    replica.stream().synchronize();
}

void assign(const Replica& replica, std::span<float> to, float value) {
    assign(replica, to, std::vector<float>(to.size(), value));
}

ReferenceBatch reference_batch(const Twin& twin, const OwnedBatch& batch, std::uint64_t seed) {
    ReferenceBatch input;
    input.samples = ReferenceTensor(batch.view().size, twin.graph.input_shape());
    if (twin.graph.reads_tokens()) {
        input.samples.values.assign(batch.tokens.begin(), batch.tokens.end());
    } else {
        input.samples.values.assign(batch.samples.begin(), batch.samples.end());
    }
    input.labels = batch.labels;
    input.targets.assign(batch.targets.begin(), batch.targets.end());
    input.ids = batch.ids;
    input.seed = seed;
    input.epoch = batch.epoch;
    return input;
}

ReferenceResult run_reference(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                              std::uint64_t seed, bool training, Rounding rounded) {
    ReferenceBatch input = reference_batch(twin, batch, seed);
    input.rounded = rounded;
    const std::vector<float> parameters = host_copy(replica, replica.parameters());
    const std::vector<float> state = host_copy(replica, replica.state());
    return twin.reference.run(twin.graph, {parameters.begin(), parameters.end()},
                              {state.begin(), state.end()}, input, training);
}

void expect_step_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                         const CheckOptions& options) {
    SCOPED_TRACE("batch " + std::to_string(batch.view().size) + ", threads " +
                 std::to_string(options.threads));
    const ReferenceResult wanted = run_reference(twin, replica, batch, options.seed, true);
    RoughReferences rough = rough_references(twin, replica, batch, options, true);
    // The buffers must be assigned, whatever they held.
    assign(replica, replica.gradients(), 1e3F);
    assign(replica, replica.batch_state(), 1e3F);
    const BatchResult got = replica.train_step(batch.view(), options.seed);
    expect_result(got, wanted, rough, batch.view().size, options);
    expect_layout(twin.graph.parameters(), host_copy(replica, replica.gradients()),
                  wanted.gradients, rough, &ReferenceResult::gradients, options);
    expect_layout(twin.graph.state(), host_copy(replica, replica.batch_state()), wanted.batch_state,
                  rough, &ReferenceResult::batch_state, options);
    expect_inference_matches(twin, replica, batch, options);
}

void expect_inference_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                              const CheckOptions& options) {
    const ReferenceResult wanted = run_reference(twin, replica, batch, options.seed, false);
    RoughReferences rough = rough_references(twin, replica, batch, options, false);
    std::vector<float> logits(wanted.logits.size());
    replica.infer(batch.view(), logits);
    const auto count = static_cast<std::int64_t>(logits.size());
    expect_range(check_range({"logits", Shape{count}, 0, count, false}, logits, wanted.logits,
                             rough, &ReferenceResult::logits, options, 1e-3),
                 logits, wanted.logits);
    expect_result(replica.evaluate(batch.view()), wanted, rough, batch.view().size, options);
}

void expect_matches(const Twin& twin, const std::vector<Replica*>& replicas,
                    const std::vector<std::int64_t>& sizes, const CheckOptions& options) {
    Replica& first = *replicas.front();
    randomise(first, options.seed);
    for (const std::int64_t size : sizes) {
        OwnedBatch batch = random_batch(twin.graph, size, options.seed);
        if (options.clear_of_kinks) {
            const KinkClearance found =
                clear_kinks(twin, first, batch, options.seed, options.roundings);
            EXPECT_TRUE(found.clear) << "batch " << size << ": of " << found.kinks << " kinks "
                                     << found.close << " were within reach of rounding; after "
                                     << found.steps << " steps some still are";
        }
        const std::vector<float> parameters = host_copy(first, first.parameters());
        const std::vector<float> state = host_copy(first, first.state());
        for (Replica* replica : replicas) {
            SCOPED_TRACE(replica->device().description());
            assign(*replica, replica->parameters(), parameters);
            assign(*replica, replica->state(), state);
            expect_step_matches(twin, *replica, batch, options);
        }
    }
}

void expect_matches(const Twin& twin, Replica& replica, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options) {
    expect_matches(twin, std::vector<Replica*>{&replica}, sizes, options);
}

void expect_matches(const Twin& twin, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options) {
    OwnedReplica owned(twin.graph, options.threads, options.deterministic);
    expect_matches(twin, owned.replica, sizes, options);
}

}  // namespace cohort::test
