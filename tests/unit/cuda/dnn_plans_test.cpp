// How an engine is chosen, shared by batch sizes and given back, with loops in cuDNN's place. Of
// the two engines that those have the first loses NaN in its ReLU.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "gpu_on_cpu/machine.hpp"
#include "layers/cuda/dnn/choices.hpp"
#include "layers/cuda/dnn/conv_graphs.hpp"
#include "layers/cuda/dnn/trials.hpp"
#include "layers/cuda/support.hpp"
#include "layers/tuning.hpp"
#include "support/gpu/cuda_on_cpu.hpp"
#include "support/gpu/kernel_tensor.hpp"

namespace cohort::cuda {
namespace {

ConvProblem problem_of(std::int64_t samples) {
    return {.samples = samples,
            .channels = 4,
            .height = 5,
            .width = 5,
            .out_height = 5,
            .out_width = 5,
            .options = {.channels = 8, .kernel = 3, .padding = 1}};
}

void take_time(bool slow) {
    std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 20 : 0));
}

class Plans : public testing::Test {
protected:
    Plans()
        : device_(make_cuda_device(0)),
          stream_(device_->create_stream()),
          support_(*device_, *stream_, Precision::kF32, false) {}

    /// A convolution with bias and ReLU; `slow`: what follows the products alone takes its time.
    [[nodiscard]] std::shared_ptr<const ChosenPlan> fused(const ConvProblem& wanted,
                                                          bool deterministic, bool slow) {
        const PlanRequest request{
            .what = "fused",
            .samples = wanted.samples,
            .rules = {.deterministic = deterministic},
            .variants =
                [this, wanted, slow] {
                    const DnnTarget& target = support_.dnn_target();
                    std::vector<PlanVariant> variants;
                    variants.push_back({.graph = forward_graph(target, wanted, ConvTail::kNone),
                                        .rest = [slow](std::span<void* const> /*memory*/) {
                                            on_cpu::submit([slow] { take_time(slow); });
                                        }});
                    variants.push_back({.graph = forward_graph(target, wanted, ConvTail::kBiasRelu),
                                        .rest = {},
                                        .must_keep_nan = true,
                                        .compiled = true});
                    return variants;
                },
            .tensors = {image_of(wanted), filter_of(wanted), bias_of(wanted), result_of(wanted)},
            .tuning = &tuning_};
        return support_.choices().plans.get(support_, request);
    }

    [[nodiscard]] std::shared_ptr<const ChosenPlan> plain(std::int64_t samples) {
        const ConvProblem wanted = problem_of(samples);
        const PlanRequest request{
            .what = "plain",
            .samples = samples,
            .variants =
                [this, wanted] {
                    ++asked_;
                    std::vector<PlanVariant> variants;
                    variants.push_back(
                        {.graph = data_graph(support_.dnn_target(), wanted), .rest = {}});
                    return variants;
                },
            .tensors = {result_of(wanted), filter_of(wanted), image_of(wanted)},
            .tuning = &tuning_};
        return support_.choices().plans.get(support_, request);
    }
    [[nodiscard]] bool measured(std::int64_t samples) const {
        return tuning_.find("plain n" + std::to_string(samples) + " | CPU | cuDNN 1") >= 0;
    }

    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    Support support_;
    TuningCache tuning_;
    int asked_ = 0;
};

TEST_F(Plans, AFusedEngineThatKeepsNanComputesBiasAndRelu) {
    const ConvProblem wanted = problem_of(3);
    const int compiled = on_cpu::played_machine().compiled_plans;
    const auto chosen = fused(wanted, false, true);
    ASSERT_EQ(chosen->variant, 1) << "what follows alone takes 20 ms";
    EXPECT_EQ(on_cpu::played_machine().compiled_plans - compiled, TrialBudget::kMostCompiled);
    const auto count = [](const DnnTensor& tensor) {
        return static_cast<std::int64_t>(tensor_bytes(tensor) / sizeof(float));
    };
    Tensor image(ElementType::kF32, count(image_of(wanted)), noise);
    Tensor filter(ElementType::kF32, count(filter_of(wanted)), noise);
    Tensor bias(ElementType::kF32, 8, noise);
    Tensor got(ElementType::kF32, count(result_of(wanted)));
    Tensor products = got;
    std::vector<std::byte> space(chosen->workspace());
    const auto run = [&](const ChosenPlan& plan, Tensor& result) {
        const DnnPlace places[] = {{kImage, image.data()},
                                   {kFilter, filter.data()},
                                   {kBias, bias.data()},
                                   {kResult, result.data()}};
        plan.plan->run(support_.dnn_handle(), places, space.data());
    };
    run(*chosen, got);
    const ChosenPlan alone = first_plan(
        support_.dnn_target(),
        {{.graph = forward_graph(support_.dnn_target(), wanted, ConvTail::kNone), .rest = {}}}, {});
    run(alone, products);
    for (std::int64_t i = 0; i < count(result_of(wanted)); ++i) {
        ASSERT_NEAR(got[i], std::max(products[i] + bias[i % 8], 0.0), 1e-6);
    }
}

TEST_F(Plans, FusedEnginesAreNeitherTakenForOtherSizesNorWhenDeterministic) {
    const auto first = fused(problem_of(8), false, true);
    EXPECT_EQ(first->variant, 1);
    const int compiled = on_cpu::played_machine().compiled_plans;
    EXPECT_EQ(fused(problem_of(9), false, true)->variant, 0);
    EXPECT_EQ(fused(problem_of(8), false, true), first) << "it is alive";
    EXPECT_EQ(fused(problem_of(30), true, true)->variant, 0);
    EXPECT_EQ(on_cpu::played_machine().compiled_plans, compiled);
}

TEST_F(Plans, OneEngineServesTheSizesNearby) {
    std::vector<std::shared_ptr<const ChosenPlan>> held;
    for (const std::int64_t samples : {8, 9, 16, 5, 4}) {
        held.push_back(plain(samples));
        EXPECT_EQ(measured(samples), samples == 8) << samples;
    }
    held.push_back(plain(17));
    EXPECT_TRUE(measured(17));
    held.push_back(plain(30));
    EXPECT_FALSE(measured(30));
    EXPECT_EQ(asked_, 7);
    EXPECT_EQ(plain(9), held[1]);
    EXPECT_EQ(asked_, 7) << "plans that are there are shared";
}

TEST_F(Plans, APlanThatNobodyHoldsIsGivenBackAndMadeAgainWithoutMeasuring) {
    const int before = on_cpu::played_machine().dnn_plans;
    auto held = plain(8);
    EXPECT_EQ(on_cpu::played_machine().dnn_plans, before + 1) << "none is left of the others tried";
    held.reset();
    EXPECT_EQ(on_cpu::played_machine().dnn_plans, before);
    held = plain(8);
    EXPECT_EQ(on_cpu::played_machine().dnn_plans, before + 1);
    EXPECT_EQ(asked_, 2);
}

TEST_F(Plans, KernelsOfOurOwnAreCandidates) {
    const ConvProblem wanted = problem_of(2);
    for (const bool slow : {false, true}) {
        const PlanRequest request{
            .what = slow ? "slow" : "fast",
            .samples = 2,
            .variants =
                [this, wanted, slow] {
                    std::vector<PlanVariant> variants;
                    variants.push_back(
                        {.graph = nullptr, .rest = [slow](std::span<void* const> /*memory*/) {
                             on_cpu::submit([slow] { take_time(slow); });
                         }});
                    variants.push_back(
                        {.graph = data_graph(support_.dnn_target(), wanted), .rest = {}});
                    return variants;
                },
            .tensors = {result_of(wanted), filter_of(wanted), image_of(wanted)},
            .tuning = &tuning_};
        const auto chosen = support_.choices().plans.get(support_, request);
        EXPECT_EQ(chosen->variant, slow ? 1 : 0);
        EXPECT_EQ(chosen->plan == nullptr, !slow);
    }
}

}  // namespace
}  // namespace cohort::cuda
