// How a whole batch is planned: memory, pieces, the largest batch that fits; and the loss scale of
// half precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/model/zoo.hpp"
#include "layers/model/loss_scale.hpp"
#include "layers/model/whole_batch_plan.hpp"
#include "support/gpu/whole_batch_rig.hpp"

namespace cohort::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HalfPrecision, RepeatsAStepThatOverflowsAndAnnouncesAtItsEnd) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .precision = Precision::kF16});
    const OwnedBatch batch = random_batch(graph, 9, 1);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    rig.support.scales.clear();
    rig.support.refreshed = 0;
    rig.support.bearable = 16384;
    Recorder observer(rig);
    rig.step(batch, &observer);
    EXPECT_EQ(rig.gradients, wanted);
    EXPECT_THAT(rig.support.scales, ElementsAre(65536, 32768, 16384));
    EXPECT_EQ(rig.support.refreshed, 3);
    EXPECT_EQ(observer.announced.size(), backward_order(graph).size()) << "once, not three times";
    rig.support.scales.clear();
    rig.step(random_batch(graph, 9, 2), &observer);
    EXPECT_THAT(rig.support.scales, ElementsAre(16384));
    rig.support.scales.clear();
    rig.support.bearable = 0;  // infinite whatever the scale
    rig.step(random_batch(graph, 9, 2), &observer);
    EXPECT_EQ(rig.support.scales.size(), 15U);
    EXPECT_EQ(rig.support.scales.back(), 1.0F) << "the numbers go out as they are";
}

TEST(HalfPrecision, ScaleHalvesDownToOneAndDoublesAfterManyGoodSteps) {
    LossScale scale;
    EXPECT_EQ(scale.value(), 65536.0F);
    for (float wanted = 32768.0F; wanted >= 1; wanted /= 2) {
        EXPECT_TRUE(scale.repeat_after(true));
        EXPECT_EQ(scale.value(), wanted);
    }
    EXPECT_FALSE(scale.repeat_after(true)) << "at 1 nothing is repeated";
    EXPECT_EQ(scale.value(), 1.0F);
    const auto good = [&](int steps) {
        for (int i = 0; i < steps; ++i) {
            EXPECT_FALSE(scale.repeat_after(false));
        }
    };
    good(1999);
    EXPECT_EQ(scale.value(), 1.0F);
    EXPECT_FALSE(scale.repeat_after(true));
    good(1999);
    EXPECT_EQ(scale.value(), 1.0F) << "an overflow begins the count again";
    good(1);
    EXPECT_EQ(scale.value(), 2.0F);
    good(30 * 2000);
    EXPECT_EQ(scale.value(), 16777216.0F);
}

TEST(ShortMemory, NamesTheLargestBatchThatFitsAndIsOverWhenABatchFits) {
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    constexpr std::uint64_t kBytes = 4 << 20;
    Rig rig(graph, {.arena_bytes = kBytes});
    rig.step(random_batch(graph, 2, 1));
    const std::vector<float> wanted = rig.gradients;
    const std::vector<float> parameters = rig.parameters;
    std::int64_t fits = 0;
    try {
        rig.step(random_batch(graph, 1000, 1));
        FAIL() << "1000 samples in 4 MiB";
    } catch (const OutOfMemory& error) {
        EXPECT_GT(error.asked, kBytes);
        EXPECT_EQ(error.free, kBytes);
        const std::string text = error.what();
        EXPECT_THAT(text, HasSubstr("a batch of 1000"));
        EXPECT_THAT(text, HasSubstr("4.0 MiB free"));
        const std::string before = "at most ";
        fits = std::stoll(text.substr(text.find(before) + before.size()));
    }
    EXPECT_GT(fits, 2);
    EXPECT_LT(fits, 1000);
    EXPECT_EQ(rig.parameters, parameters);
    rig.step(random_batch(graph, fits, 1));
    EXPECT_THROW(rig.step(random_batch(graph, fits + 2, 1)), OutOfMemory);
    rig.step(random_batch(graph, 2, 1));
    EXPECT_EQ(rig.gradients, wanted);
}

TEST(ShortMemory, SaysWhenNotEvenOneSampleFits) {
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    Rig rig(graph, {.arena_bytes = 1000});
    EXPECT_THAT([&] { rig.step(random_batch(graph, 3, 1)); },
                ThrowsMessage<OutOfMemory>(HasSubstr("not even a batch of 1")));
}

TEST(Plan, KeepsApartWhatLivesTogether) {
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    CompiledGraph compiled({.graph = graph, .device = *device, .stream = *stream});
    const WholeBatchPlan plan = plan_whole_batch(compiled, 16, true);
    std::size_t all = 0;
    for (std::size_t value = 0; value < plan.activations.size(); ++value) {
        for (const Place* place : {&plan.activations[value], &plan.gradients[value]}) {
            EXPECT_EQ(place->offset % WholeBatchPlan::kAlignment, 0U);
            all += place->sample_bytes * 16;
        }
    }
    EXPECT_LT(plan.arena_bytes, all * 3 / 4) << "gradients take the place of activations";
    EXPECT_EQ(largest_batch_within(compiled, plan, true, plan.arena_bytes), 16);
    const std::int64_t half = largest_batch_within(compiled, plan, true, plan.arena_bytes / 2);
    EXPECT_GE(half, 4);
    EXPECT_LE(half, 8);
    EXPECT_EQ(largest_batch_within(compiled, plan, true, 1000), 0);
}

TEST(Plan, CutsPiecesBehindTheLossAndWhereGradientsAreFinal) {
    const Graph graph = make_model("vgg16", Shape{3, 32, 32}, 10);
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    CompiledGraph compiled({.graph = graph, .device = *device, .stream = *stream});
    const WholeBatchPlan plan = plan_whole_batch(compiled, 2, false);
    const std::vector<Piece> pieces = cut_pieces(graph, plan.steps, std::size_t{4} << 20);
    ASSERT_GE(pieces.size(), 6U);
    EXPECT_LE(pieces.size(), 12U);
    EXPECT_EQ(plan.steps[pieces[0].end - 1].step.kind, StepKind::kLoss);
    std::size_t at = 0;
    for (const Piece& piece : pieces) {
        EXPECT_EQ(piece.begin, at);
        EXPECT_GT(piece.end, piece.begin);
        at = piece.end;
    }
    EXPECT_EQ(at, plan.steps.size());
}

}  // namespace
}  // namespace cohort::test
