// Layers far below the processor's own product of matrices, and what is said of them.
#include "cohort/model/slow_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "core/tensor/cpu_team.hpp"

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
                AllOf(HasSubstr("slow backward 2.3 % (by jit:avx2, ref:any)"),
                      HasSubstr("would take 79 % less time")));
}

TEST(SlowLayers, WithoutProductsAreNone) {
    LayerProfile pooling = layer("pooling", 3, 3);
    pooling.flops = {};
    EXPECT_THAT(slow_layers({pooling}, 100, 1e9), IsEmpty());
    EXPECT_EQ(slow_layers_sentence({}, 1e9), "");
}

TEST(SlowLayers, ThatCostLittleAreNotSpokenOf) {
    // The floor is 0.4 s in each direction.
    const auto sentence = [](double forward_s) {
        return slow_layers_sentence(slow_layers({layer("one", forward_s, 0.4)}, 100, 1e9), 1e9);
    };
    EXPECT_EQ(sentence(0.79), "") << "0.39 of 1.19 s are less than a third";
    EXPECT_NE(sentence(0.81), "") << "0.41 of 1.21 s";
}

/// Steps of a small network, watched.
class Watched {
public:
    explicit Watched(int threads, double (*product_flops)())
        : device_(make_cpu_device(threads)),
          replica_(make_model("lenet", Shape{1, 28, 28}, 10), *device_),
          watch_(replica_, threads, product_flops) {
        replica_.initialise(1);
    }

    std::string step(std::int64_t samples, bool given_up = false) {
        const BatchView batch{.samples = samples_.data(),
                              .labels = labels_.data(),
                              .sample_ids = ids_.data(),
                              .size = samples};
        watch_.begin();
        static_cast<void>(replica_.train_step(batch, 1));
        return watch_.end(given_up ? 0 : samples);
    }
    /// Which steps the watch spoke after.
    std::vector<int> spoke(const std::vector<std::int64_t>& batches) {
        std::vector<int> steps;
        for (std::size_t i = 0; i < batches.size(); ++i) {
            const std::string sentence = step(batches[i]);
            if (!sentence.empty()) {
                steps.push_back(static_cast<int>(i));
                EXPECT_THAT(sentence, HasSubstr("layers are slow on this processor"));
                EXPECT_THAT(sentence, HasSubstr("conv"));
            }
        }
        return steps;
    }

private:
    static constexpr std::size_t kMost = 16;
    std::vector<float> samples_ = std::vector<float>(kMost * 28 * 28, 0.5F);
    std::vector<std::int32_t> labels_ = std::vector<std::int32_t>(kMost, 3);
    std::vector<std::int64_t> ids_ = std::vector<std::int64_t>(kMost, 0);
    std::unique_ptr<Device> device_;
    Replica replica_;
    SlowLayerWatch watch_;
};

TEST(SlowLayerWatch, SpeaksOnceAfterTheStepsThatItTimes) {
    // A core whose product is a thousand times faster than any: all layers of products are slow.
    for (const int threads : {1, 3}) {
        Watched watched(threads, [] { return 1e15; });
        EXPECT_THAT(watched.spoke({4, 4, 4, 4, 4, 4, 4}), ElementsAre(SlowLayerWatch::kSteps));
    }
    Watched watched(1, [] { return 1e15; });
    EXPECT_EQ(watched.step(4), "");
    EXPECT_EQ(watched.step(4, true), "") << "given up";
    EXPECT_EQ(watched.step(4, true), "");
    EXPECT_EQ(watched.step(4), "");
    EXPECT_EQ(watched.step(4), "");
    EXPECT_NE(watched.step(4), "");
}

TEST(SlowLayerWatch, SaysNothingWhereLayersKeepUpWithTheProduct) {
    Watched watched(1, [] { return 1e6; });
    EXPECT_THAT(watched.spoke({4, 4, 4, 4, 4, 4}), IsEmpty());
}

TEST(SlowLayerWatch, CountsTheSamplesOfItsThread) {
    EXPECT_EQ(samples_of_thread(1, 8), 1);
    EXPECT_EQ(samples_of_thread(9, 8), 2);
    EXPECT_EQ(samples_of_thread(16, 8), 2);
    EXPECT_EQ(samples_of_thread(7, 1), 7);
}

TEST(SlowLayers, ManyAreCounted) {
    const auto slow = slow_layers({layer("a", 5, 5), layer("b", 4, 4), layer("c", 3, 3)}, 100, 1e9);
    EXPECT_THAT(slow_layers_sentence(slow, 1e9), HasSubstr("b forward 2.5 %"));
    EXPECT_THAT(slow_layers_sentence(slow, 1e9), HasSubstr(" and 3 more; "));
}

}  // namespace
}  // namespace cohort
