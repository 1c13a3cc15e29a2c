// Layers far below the processor's own product of matrices, and what is said of them.
#include "cohort/model/slow_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cohort/model/zoo.hpp"
#include "tensor/cpu_team.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// 1e9 operations per second are the product here; samples of 1e6 operations in each direction.
LayerProfile layer(const std::string& name, double forward_s, double backward_s) {
    return {.name = name,
            .kind = "conv",
            .is_convolution = true,
            .flops = {.forward = 1e6, .backward = 1e6},
            .implementations = {{"forward", "jit:avx2"}, {"weight gradient", "ref:any"}},
            .forward_s = forward_s,
            .backward_s = backward_s};
}

TEST(SlowLayers, AreThoseBelowAQuarterOfTheProduct) {
    // 100 samples: 0.1 s at the product's own speed, 0.4 s at the floor.
    const auto slow = slow_layers({layer("fast", 0.1, 0.39), layer("slow", 0.2, 4.4)}, 100, 1e9);
    ASSERT_THAT(slow, SizeIs(1));
    EXPECT_EQ(slow[0].layer, "slow");
    EXPECT_TRUE(slow[0].backward);
    EXPECT_NEAR(slow[0].share, 0.1 / 4.4, 1e-12);
    EXPECT_NEAR(slow[0].lost, 4.0 / 5.09, 1e-12);
    EXPECT_THAT(slow_layers_sentence(slow, 1e9),
                AllOf(HasSubstr("slow backward at 2.3 % (by jit:avx2, ref:any)"),
                      HasSubstr("a step would take 79 % less time")));
}

TEST(SlowLayers, WithoutProductsAreNone) {
    LayerProfile pooling = layer("pooling", 3, 3);
    pooling.flops = {};
    EXPECT_THAT(slow_layers({pooling}, 100, 1e9), IsEmpty());
    EXPECT_EQ(slow_layers_sentence({}, 1e9), "");
}

TEST(SlowLayers, ThatCostLessThanATenthAreNotSpokenOf) {
    const auto slow = slow_layers({layer("long", 10, 10), layer("short", 0.41, 1.4)}, 100, 1e9);
    EXPECT_THAT(slow_layers({layer("short", 0.41, 1.4)}, 100, 1e9), SizeIs(2));
    EXPECT_NE(slow_layers_sentence(slow, 1e9), "") << "the long one is slow as well";
    LayerProfile fine = layer("long", 10, 10);
    fine.flops = {.forward = 1e8, .backward = 1e8};
    EXPECT_EQ(slow_layers_sentence(slow_layers({fine, layer("short", 0.41, 1.4)}, 100, 1e9), 1e9),
              "");
}

/// A core whose product is a thousand times faster than any: all layers of products are slow.
TEST(SlowLayerWatch, SpeaksOnceAfterTheStepsThatItTimes) {
    constexpr std::int64_t kBatch = 4;
    const auto device = make_cpu_device(1);
    Replica replica(make_model("lenet", Shape{1, 28, 28}, 10), *device);
    replica.initialise(1);
    const std::vector<float> samples(kBatch * 28 * 28, 0.5F);
    const std::vector<std::int32_t> labels(kBatch, 3);
    const std::vector<std::int64_t> ids(kBatch, 0);
    const BatchView batch{.samples = samples.data(),
                          .labels = labels.data(),
                          .sample_ids = ids.data(),
                          .size = kBatch};
    SlowLayerWatch watch(replica, 1, 1e15);
    std::vector<int> spoke;
    for (int step = 0; step < 8; ++step) {
        static_cast<void>(replica.train_step(batch, 1));
        const std::string sentence = watch.stepped(kBatch);
        if (!sentence.empty()) {
            spoke.push_back(step);
            EXPECT_THAT(sentence, HasSubstr("layers are slow on this processor"));
            EXPECT_THAT(sentence, HasSubstr("conv"));
        }
    }
    EXPECT_THAT(spoke, ElementsAre(SlowLayerWatch::kSteps));
}

TEST(SlowLayers, ManyAreCounted) {
    const auto slow = slow_layers({layer("a", 5, 5), layer("b", 4, 4), layer("c", 3, 3)}, 100, 1e9);
    EXPECT_THAT(slow_layers_sentence(slow, 1e9), HasSubstr("b forward at 2.5 %"));
    EXPECT_THAT(slow_layers_sentence(slow, 1e9), HasSubstr(" and 3 more; "));
}

}  // namespace
}  // namespace cohort
