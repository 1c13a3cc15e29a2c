#include "support/reference_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cohort/core/rng.hpp"

namespace cohort::test {
namespace {

constexpr double kLeastScale = 0.05;

/// Compares one range of a flat buffer.
void expect_range(const FlatRange& range, std::span<const float> got,
                  const std::vector<double>& wanted, double tolerance, double least_scale) {
    double scale = least_scale;
    double error = 0;
    std::int64_t worst = range.offset;
    for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        scale = std::max(scale, std::abs(wanted[at]));
        const double difference = std::abs(static_cast<double>(got[at]) - wanted[at]);
        if (!(difference <= error)) {
            error = difference;
            worst = i;
        }
    }
    EXPECT_LE(error, tolerance * scale)
        << range.name << "[" << worst - range.offset << "] of " << range.size << ": got "
        << got[static_cast<std::size_t>(worst)] << ", reference "
        << wanted[static_cast<std::size_t>(worst)];
}

void expect_layout(const FlatLayout& layout, std::span<const float> got,
                   const std::vector<double>& wanted, double tolerance, double least_scale) {
    for (const FlatRange& range : layout.ranges()) {
        expect_range(range, got, wanted, tolerance, least_scale);
    }
}

}  // namespace

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
    batch.samples.resize(static_cast<std::size_t>(size * graph.input_shape().elements()));
    std::generate(batch.samples.begin(), batch.samples.end(), [&] { return rng.next_normal(); });
    for (std::int64_t n = 0; n < size; ++n) {
        const auto classes = static_cast<std::uint32_t>(graph.classes());
        batch.labels.push_back(static_cast<std::int32_t>(rng.next_below(classes)));
        batch.ids.push_back(1000000007LL * (size - n) + n * n);
    }
    if (graph.loss() == LossKind::kMeanSquaredError) {
        batch.targets.resize(static_cast<std::size_t>(size * graph.classes()));
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
    for (const FlatRange& range : replica.graph().parameters().ranges()) {
        for (std::int64_t i = 0; !range.decay && i < range.size; ++i) {
            replica.parameters()[static_cast<std::size_t>(range.offset + i)] += noise();
        }
    }
    for (const FlatRange& range : replica.graph().state().ranges()) {
        for (std::int64_t i = 0; i < range.size; ++i) {
            replica.state()[static_cast<std::size_t>(range.offset + i)] += noise();
        }
    }
}

OwnedReplica::OwnedReplica(const Graph& graph, int threads, bool deterministic)
    : device(make_cpu_device(threads)), replica(graph, *device, {.deterministic = deterministic}) {
}

ReferenceResult run_reference(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                              std::uint64_t seed, bool training) {
    ReferenceBatch input;
    input.samples = ReferenceTensor(batch.view().size, twin.graph.input_shape());
    input.samples.values.assign(batch.samples.begin(), batch.samples.end());
    input.labels = batch.labels;
    input.targets.assign(batch.targets.begin(), batch.targets.end());
    input.ids = batch.ids;
    input.seed = seed;
    input.epoch = batch.epoch;
    return twin.reference.run(twin.graph,
                              {replica.parameters().begin(), replica.parameters().end()},
                              {replica.state().begin(), replica.state().end()}, input, training);
}

void expect_step_matches(const Twin& twin, Replica& replica, const OwnedBatch& batch,
                         const CheckOptions& options) {
    SCOPED_TRACE("batch " + std::to_string(batch.view().size) + ", threads " +
                 std::to_string(options.threads));
    const ReferenceResult wanted = run_reference(twin, replica, batch, options.seed, true);
    // The buffers must be assigned, whatever they held.
    std::fill(replica.gradients().begin(), replica.gradients().end(), 1e3F);
    std::fill(replica.batch_state().begin(), replica.batch_state().end(), 1e3F);
    const BatchResult got = replica.train_step(batch.view(), options.seed);
    EXPECT_EQ(got.samples, batch.view().size);
    EXPECT_NEAR(got.loss_sum, wanted.loss_sum, options.tolerance * std::max(1.0, wanted.loss_sum));
    EXPECT_EQ(got.correct, wanted.correct);
    const double scale = kLeastScale * largest(wanted.gradients);
    expect_layout(twin.graph.parameters(), replica.gradients(), wanted.gradients, options.tolerance,
                  scale);
    expect_layout(twin.graph.state(), replica.batch_state(), wanted.batch_state, options.tolerance,
                  kLeastScale * largest(wanted.batch_state));

    const ReferenceResult inferred = run_reference(twin, replica, batch, options.seed, false);
    std::vector<float> logits(inferred.logits.size());
    replica.infer(batch.view(), logits);
    const auto count = static_cast<std::int64_t>(logits.size());
    expect_range({"logits", Shape{count}, 0, count, false}, logits, inferred.logits,
                 options.tolerance, 1e-3);
    const BatchResult evaluated = replica.evaluate(batch.view());
    EXPECT_NEAR(evaluated.loss_sum, inferred.loss_sum,
                options.tolerance * std::max(1.0, inferred.loss_sum));
    EXPECT_EQ(evaluated.correct, inferred.correct);
}

void expect_matches(const Twin& twin, const std::vector<std::int64_t>& sizes,
                    const CheckOptions& options) {
    OwnedReplica owned(twin.graph, options.threads, options.deterministic);
    randomise(owned.replica, options.seed);
    for (const std::int64_t size : sizes) {
        expect_step_matches(twin, owned.replica, random_batch(twin.graph, size, options.seed),
                            options);
    }
}

}  // namespace cohort::test
