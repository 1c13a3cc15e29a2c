// The language models of the zoo on every backend beside the CPU: one step, and steps with AdamW
// and a limit on the gradient's norm. Small windows and vocabularies, so that a GPU of loops
// computes them. Attention where scores are large.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "cohort/optim/learning_options.hpp"
#include "cohort/optim/optimizer.hpp"
#include "layers/optim/device_math.hpp"
#include "support/gpu/gpu_backend.hpp"

namespace cohort::test {
namespace {

struct TextParam {
    Backend backend;
    std::string model;
};

std::ostream& operator<<(std::ostream& out, const TextParam& param) {
    return out << param.model << " on " << param.backend.name;
}

std::vector<TextParam> text_params() {
    std::vector<TextParam> params;
    for (const Backend& backend : all_backends()) {
        // Heads of 8, 25 and 20 features: with and without a fused engine in 16 bits.
        for (const char* model : {"lstm", "transformer", "gpt:16,2,2", "gpt:40,1,2"}) {
            params.push_back({backend, model});
        }
    }
    return params;
}

/// Largest differences from the CPU's, of losses relative to them and of gradients by norm.
struct Limits {
    double loss;
    double gradient;
};
Limits limits_of(Precision precision) {
    switch (precision) {
        case Precision::kF32: return {1e-5, 2e-4};
        case Precision::kTf32: return {2e-3, 0.03};
        case Precision::kF16: return {2e-3, 0.06};
        case Precision::kBf16: return {0.01, 0.18};
    }
    return {};
}

class TextModels : public ::testing::TestWithParam<TextParam> {
protected:
    void SetUp() override { need(GetParam().backend); }

    static Graph graph() {
        return make_model(GetParam().model, {.shape = Shape{9}, .classes = 30, .tokens = true});
    }
};

INSTANTIATE_TEST_SUITE_P(Zoo, TextModels, ::testing::ValuesIn(text_params()), [](const auto& made) {
    std::string name = made.param.model;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == ':' || c == ','; }, '_');
    return std::string(made.param.backend.name) + "_" + name;
});

TEST_P(TextModels, AStepAgreesWithTheCpu) {
    const Graph network = graph();
    const Limits limit = limits_of(GetParam().backend.precision);
    const auto owned = GetParam().backend.replica(network);
    OwnedReplica cpu(network, 2, true);
    owned->replica.initialise(3);
    cpu.replica.initialise(3);
    const OwnedBatch batch = random_batch(network, 3, 3);
    const BatchResult got = owned->replica.train_step(batch.view(), 7);
    const BatchResult wanted = cpu.replica.train_step(batch.view(), 7);
    EXPECT_NEAR(got.loss_sum, wanted.loss_sum, limit.loss * wanted.loss_sum);
    const std::vector<float> reference = host_copy(cpu.replica, cpu.replica.gradients());
    expect_layout(network.parameters(), host_copy(owned->replica, owned->replica.gradients()),
                  {reference.begin(), reference.end()},
                  {.tolerance = limit.gradient, .in_norm = true});
}

/// Mean losses of steps over two batches in turn, one of them twice as large.
std::vector<double> losses(OwnedReplica& owned, int steps) {
    Replica& replica = owned.replica;
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.kind = OptimizerKind::kAdamW}, layout, 0,
                                          layout.total(), *owned.device, replica.stream());
    const auto math = make_device_math(*owned.device, replica.stream());
    const std::vector<OwnedBatch> batches{random_batch(replica.graph(), 2, 1),
                                          random_batch(replica.graph(), 1, 2)};
    replica.initialise(1);
    std::vector<double> found;
    for (int step = 0; step < steps; ++step) {
        const OwnedBatch& batch = batches[static_cast<std::size_t>(step % 2)];
        const BatchResult result =
            replica.train_step(batch.view(), static_cast<std::uint64_t>(step));
        found.push_back(result.loss_sum / static_cast<double>(result.samples));
        const std::span<float> gradients = replica.gradients();
        math->add_squares(gradients);
        const double factor = clip_factor(0.5, std::sqrt(math->take_squares()));
        math->scale_into(gradients, gradients, static_cast<float>(factor));
        optimizer->update(replica.parameters(), gradients, 1, 1e-3);
    }
    return found;
}

TEST_P(TextModels, StepsFollowTheCpu) {
    const Graph network = graph();
    OwnedReplica cpu(network, 2, true);
    const std::vector<double> wanted = losses(cpu, 5);
    const auto owned = GetParam().backend.replica(network);
    const std::vector<double> got = losses(*owned, 5);
    const double limit = 5 * limits_of(GetParam().backend.precision).loss;
    for (std::size_t step = 0; step < got.size(); ++step) {
        EXPECT_NEAR(got[step], wanted[step], limit * wanted[step]) << "step " << step;
    }
    EXPECT_LT(got[4], got[0]);
}

class AttentionOn : public ::testing::TestWithParam<Backend> {
protected:
    static constexpr std::int64_t kWidth = 8;  // cuDNN has engines for it

    void SetUp() override { need(GetParam()); }

    /// Causal attention of one head; the input itself is queries, keys and values, of which only
    /// the first elements are not zero. @param rows  query, key and value of a position, in turn
    static std::vector<float> attend(const std::vector<float>& rows) {
        const auto positions = static_cast<std::int64_t>(rows.size()) / 3;
        GraphBuilder net("attend", Shape{positions, 3 * kWidth});
        const Value x = net.attention(net.input(), {.heads = 1, .causal = true});
        const Graph graph = net.finish_regression(net.linear(x, {.features = kWidth}));
        const auto owned = GetParam().replica(graph);
        std::vector<float> parameters(owned->replica.parameters().size(), 0.0F);
        for (std::size_t f = 0; f < kWidth; ++f) {  // the linear layer changes nothing
            parameters[f * (kWidth + 1)] = 1;
        }
        assign(owned->replica, owned->replica.parameters(), parameters);
        std::vector<float> samples(rows.size() * kWidth, 0.0F);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            samples[i * kWidth] = rows[i];
        }
        std::vector<float> outputs(static_cast<std::size_t>(positions * kWidth));
        owned->replica.infer({.samples = samples.data(), .size = 1}, outputs);
        std::vector<float> first;
        for (std::size_t t = 0; t < outputs.size(); t += kWidth) {
            first.push_back(outputs[t]);
        }
        return first;
    }
};

INSTANTIATE_TEST_SUITE_P(Backends, AttentionOn, ::testing::ValuesIn(all_backends()), backend_name);

TEST_P(AttentionOn, BearsLargeScoresAndShowsNan) {
    std::vector<float> rows{128, 128, 1, 128, -128, 2, -128, 128, 6};
    EXPECT_EQ(attend(rows), (std::vector<float>{1, 1, 2}));
    rows[4] = std::nanf("");
    const std::vector<float> seen = attend(rows);
    EXPECT_EQ(seen[0], 1);  // it sees itself alone
    EXPECT_TRUE(std::isnan(seen[1]));
    EXPECT_TRUE(std::isnan(seen[2]));
}

}  // namespace
}  // namespace cohort::test
