// What all optimizers share: ranges, padding, decay flags, pieces, state.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::mixed_layout;
using test::OptimizerRun;
using test::random_floats;

/// Floats of tensors, random; padding zero.
std::vector<float> fill(const FlatLayout& layout, std::uint64_t key) {
    const std::vector<float> values = random_floats(layout.total(), key);
    std::vector<float> result(values.size());
    for (const FlatRange& range : layout.ranges()) {
        std::copy_n(values.begin() + range.offset, range.size, result.begin() + range.offset);
    }
    return result;
}

class EveryOptimizer : public testing::TestWithParam<std::pair<OptimizerKind, bool>> {
protected:
    EveryOptimizer() {
        options_.kind = GetParam().first;
        options_.decoupled = GetParam().second;
        options_.weight_decay = 0.1;
    }
    static constexpr double kFractions[] = {1, 0.5, 0.25, 0.75, 1.5, 1, 0.125};

    OptimizerOptions options_;
    FlatLayout layout_ = mixed_layout();
};

TEST_P(EveryOptimizer, ShardsTogetherEqualTheWhole) {
    const std::int64_t total = layout_.total();
    const std::vector<float> start = fill(layout_, 0);
    OptimizerRun whole(options_, layout_, 0, total, start);
    // Cuts inside tensors, inside padding, and an empty shard.
    const std::vector<std::int64_t> cuts = {0, 7, 23, 40, 40, 50, 71, total};
    std::vector<std::unique_ptr<OptimizerRun>> shards;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
        shards.push_back(std::make_unique<OptimizerRun>(
            options_, layout_, cuts[s], cuts[s + 1],
            std::vector<float>(start.begin() + cuts[s], start.begin() + cuts[s + 1])));
    }
    std::uint64_t key = 0;
    for (const double f : kFractions) {
        const std::vector<float> g = fill(layout_, ++key);
        whole.update(g, f, 0.05);
        for (std::size_t s = 0; s < shards.size(); ++s) {
            shards[s]->update({g.begin() + cuts[s], g.begin() + cuts[s + 1]}, f, 0.05);
        }
    }
    std::vector<float> joined;
    for (const auto& shard : shards) {
        joined.insert(joined.end(), shard->theta.begin(), shard->theta.end());
    }
    EXPECT_EQ(joined, whole.theta);
}

TEST_P(EveryOptimizer, RefusesUpdatesThatOverlap) {
    const std::int64_t total = layout_.total();
    OptimizerRun run(options_, layout_, 0, total, fill(layout_, 0));
    const std::vector<float> g = fill(layout_, 1);
    const auto piece = [&](std::int64_t begin, std::int64_t end) {
        const auto at = static_cast<std::size_t>(begin);
        const auto n = static_cast<std::size_t>(end - begin);
        run.optimizer->apply(begin, std::span(run.theta).subspan(at, n),
                             std::span(g).subspan(at, n));
    };
    EXPECT_THROW(piece(0, 16), UsageError);  // no update has begun
    OptimizerRun fresh(options_, layout_, 0, total, fill(layout_, 0));
    fresh.optimizer->begin_update(1, 0.05);
    fresh.optimizer->apply(0, std::span(fresh.theta).first(16), std::span(g).first(16));
    EXPECT_THROW(fresh.optimizer->begin_update(1, 0.05), UsageError);
    fresh.optimizer->apply(16, std::span(fresh.theta).subspan(16), std::span(g).subspan(16));
    fresh.optimizer->begin_update(1, 0.05);
}

TEST_P(EveryOptimizer, PaddingStaysZeroWhateverItsGradient) {
    OptimizerRun run(options_, layout_, 0, layout_.total(), fill(layout_, 0));
    std::vector<float> g(static_cast<std::size_t>(layout_.total()),
                         std::numeric_limits<float>::quiet_NaN());
    for (const FlatRange& range : layout_.ranges()) {
        std::fill_n(g.begin() + range.offset, range.size, 1.0F);
    }
    run.update(g, 1, 0.1);
    run.update(g, 0.5, 0.1);
    std::vector<bool> tensor(g.size());
    for (const FlatRange& range : layout_.ranges()) {
        std::fill_n(tensor.begin() + range.offset, range.size, true);
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
        if (tensor[i]) {
            EXPECT_TRUE(run.theta[i] == run.theta[i]) << i;
        } else {
            EXPECT_EQ(run.theta[i], 0.0F) << i;
            EXPECT_EQ(run.slot(0)[i], 0.0F) << i;
        }
    }
}

TEST_P(EveryOptimizer, DecayTouchesFlaggedRangesOnly) {
    OptimizerOptions plain = options_;
    plain.weight_decay = 0;
    OptimizerRun with(options_, layout_, 0, layout_.total(), fill(layout_, 0));
    OptimizerRun without(plain, layout_, 0, layout_.total(), fill(layout_, 0));
    for (std::uint64_t step = 1; step <= 3; ++step) {
        with.update(fill(layout_, step), 0.5, 0.05);
        without.update(fill(layout_, step), 0.5, 0.05);
    }
    for (const FlatRange& range : layout_.ranges()) {
        const auto first = with.theta.begin() + range.offset;
        const bool same =
            std::equal(first, first + range.size, without.theta.begin() + range.offset);
        EXPECT_EQ(same, !range.decay) << range.name;
    }
}

TEST_P(EveryOptimizer, StateMovesToAnotherOptimizerBitForBit) {
    OptimizerRun first(options_, layout_, 0, layout_.total(), fill(layout_, 0));
    std::uint64_t key = 0;
    for (const double f : kFractions) {
        first.update(fill(layout_, ++key), f, 0.05);
    }
    OptimizerRun second(options_, layout_, 0, layout_.total(), first.theta);
    for (std::size_t s = 0; s < first.optimizer->slots().size(); ++s) {
        EXPECT_EQ(first.optimizer->slots()[s].name, second.optimizer->slots()[s].name);
        std::ranges::copy(first.slot(s), second.slot(s).begin());
    }
    for (const OptimizerScalar& scalar : first.optimizer->scalars()) {
        second.optimizer->set_scalar(scalar.name, scalar.value);
    }
    for (const double f : kFractions) {
        const std::vector<float> g = fill(layout_, ++key);
        first.update(g, f, 0.05);
        second.update(g, f, 0.05);
    }
    EXPECT_EQ(first.theta, second.theta);
    EXPECT_THROW(second.optimizer->set_scalar("no such number", 1), UsageError);
}

TEST_P(EveryOptimizer, WrongArgumentsAreRefused) {
    OptimizerRun run(options_, layout_, 0, layout_.total(), fill(layout_, 0));
    const std::vector<float> g = fill(layout_, 1);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(run.update(g, 0, 0.1), UsageError);
    EXPECT_THROW(run.update(g, -0.5, 0.1), UsageError);
    EXPECT_THROW(run.update(g, nan, 0.1), UsageError);
    EXPECT_THROW(run.update(g, 1, -0.1), UsageError);
    EXPECT_THROW(run.update(g, 1, nan), UsageError);
    EXPECT_THROW(run.update({1.0F}, 1, 0.1), ShapeError);
    EXPECT_THROW(run.optimizer->set_momentum(1), UsageError);
    EXPECT_THROW(
        run.optimizer->apply(layout_.total(), std::span(run.theta).first(1), std::span(g).first(1)),
        ShapeError);
    EXPECT_EQ(run.theta, fill(layout_, 0));
}

std::string parameter_name(const testing::TestParamInfo<std::pair<OptimizerKind, bool>>& info) {
    return std::string(word_of(info.param.first)) + (info.param.second ? "Decoupled" : "Coupled");
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer,
                         testing::Values(std::pair{OptimizerKind::kSgd, false},
                                         std::pair{OptimizerKind::kSgd, true},
                                         std::pair{OptimizerKind::kAdamW, false},
                                         std::pair{OptimizerKind::kAdamW, true}),
                         parameter_name);

TEST(MakeOptimizer, RefusesOptionsOutOfRange) {
    const auto refused = [](auto change) {
        OptimizerOptions options;
        change(options);
        EXPECT_THROW(OptimizerRun(options, {1.0F}), UsageError);
    };
    refused([](OptimizerOptions& o) { o.momentum = 1; });
    refused([](OptimizerOptions& o) { o.momentum = -0.1; });
    refused([](OptimizerOptions& o) { o.weight_decay = -1; });
    refused([](OptimizerOptions& o) { o.beta1 = 1; });
    refused([](OptimizerOptions& o) { o.beta2 = std::numeric_limits<double>::quiet_NaN(); });
    refused([](OptimizerOptions& o) { o.epsilon = 0; });
    const FlatLayout layout = mixed_layout();
    EXPECT_THROW(OptimizerRun({}, layout, 5, layout.total() + 1, {}), ShapeError);
    EXPECT_THROW(OptimizerRun({}, layout, 5, 4, {}), ShapeError);
}

TEST(OptimizerKind, TextGoesBothWays) {
    EXPECT_EQ(parse_word<OptimizerKind>("sgd", "--optimizer"), OptimizerKind::kSgd);
    EXPECT_EQ(parse_word<OptimizerKind>("adamw", "--optimizer"), OptimizerKind::kAdamW);
    EXPECT_THROW(static_cast<void>(parse_word<OptimizerKind>("adam", "--optimizer")), UsageError);
}

}  // namespace
}  // namespace cohort
