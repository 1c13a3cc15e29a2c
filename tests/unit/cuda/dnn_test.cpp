// Graphs of convolutions and cuDNN's plans for them. cuDNN makes plans for a GPU that is only
// described, so what it can do is known on a machine without one; nothing is run here.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/conv_graphs.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"
#include "support/gpu/described_gpu.hpp"

namespace cohort::cuda {
namespace {

using Dnn = DescribedGpuTest;

ConvProblem problem_of(std::int64_t samples, const Shape& input, const ConvOptions& options,
                       ElementType type) {
    const auto [height, width] = conv_extents(options, input);
    return {.samples = samples,
            .channels = input[0],
            .height = input[1],
            .width = input[2],
            .out_height = height,
            .out_width = width,
            .options = options,
            .type = type};
}

struct Case {
    std::string name;
    Shape input;
    ConvOptions options;
};
std::vector<Case> cases() {
    return {
        {"first of ResNet-20, padded", {4, 32, 32}, {.channels = 16, .kernel = 3, .padding = 1}},
        {"first of ResNet-20, 16 bits", {8, 32, 32}, {.channels = 16, .kernel = 3, .padding = 1}},
        {"middle of ResNet-20",
         {16, 32, 32},
         {.channels = 32, .kernel = 3, .stride = 2, .padding = 1}},
        {"1x1 with stride", {16, 32, 32}, {.channels = 32, .kernel = 1, .stride = 2}},
        {"first of ResNet-50",
         {8, 224, 224},
         {.channels = 64, .kernel = 7, .stride = 2, .padding = 3}},
        {"bottleneck", {256, 56, 56}, {.channels = 64, .kernel = 1}},
        {"VGG", {64, 32, 32}, {.channels = 128, .kernel = 3, .padding = 1}},
        {"odd channels", {5, 11, 7}, {.channels = 3, .kernel = 3, .padding = 1}},
        {"one channel", {1, 9, 9}, {.channels = 1, .kernel = 3}},
        {"5x5", {6, 14, 14}, {.channels = 16, .kernel = 5}},
        {"dilation", {8, 16, 16}, {.channels = 8, .kernel = 3, .padding = 2, .dilation = 2}},
        {"groups", {16, 16, 16}, {.channels = 32, .kernel = 3, .padding = 1, .groups = 4}},
        {"depthwise",
         {32, 16, 16},
         {.channels = 32, .kernel = 3, .stride = 2, .padding = 1, .groups = 32}},
        {"odd groups", {9, 8, 8}, {.channels = 6, .kernel = 3, .padding = 1, .groups = 3}},
        {"1x7", {128, 17, 17}, {.channels = 128, .kernel = {1, 7}, .padding = {0, 3, 0, 3}}},
        {"7x1, odd channels",
         {5, 17, 17},
         {.channels = 3, .kernel = {7, 1}, .stride = {2, 1}, .padding = {3, 0, 3, 0}}},
        {"padding of one side",
         {16, 32, 32},
         {.channels = 32, .kernel = 3, .stride = 2, .padding = {0, 0, 1, 1}}},
        {"padding of one side, groups",
         {16, 15, 16},
         {.channels = 16, .kernel = {3, 2}, .padding = {2, 0, 0, 1}, .groups = 4}},
        {"2x2 with even stride", {7, 15, 13}, {.channels = 10, .kernel = 2, .stride = 3}},
    };
}

TEST_F(Dnn, ADescriptorsErrorSaysWhatCudnnSays) {
    DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    EXPECT_THAT([&] { tensor.finalize("empty tensor"); },
                testing::ThrowsMessage<DeviceError>(testing::AllOf(
                    testing::HasSubstr("empty tensor"), testing::HasSubstr("CUDNN_STATUS"))));
}

TEST_F(Dnn, TensorsKeepExtentsAndStrides) {
    const DnnTensor image = channels_last(7, {2, 3, 4, 5}, ElementType::kBf16);
    EXPECT_EQ(image.strides, (std::array<std::int64_t, 4>{60, 1, 15, 3}));
    EXPECT_EQ(tensor_bytes(image), 2U * 3 * 4 * 5 * 2);
    const DnnDescriptor made = make_descriptor(image);
    EXPECT_EQ(made.number(CUDNN_ATTR_TENSOR_UNIQUE_ID), 7);
}

TEST(EngineRules, FullPrecisionAndDeterminismAreKept) {
    using Notes = std::vector<cudnnBackendNumericalNote_t>;
    const EngineRules free{.tensor_cores = true, .deterministic = false};
    const EngineRules full{.tensor_cores = false, .deterministic = false};
    const EngineRules strict{.tensor_cores = true, .deterministic = true};
    const Notes tensor_core{CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    const Notes random{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    const Notes halves{CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    const Notes short_sums{CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                           CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
    EXPECT_TRUE(engine_allowed({}, full));
    EXPECT_TRUE(engine_allowed(tensor_core, free));
    EXPECT_FALSE(engine_allowed(tensor_core, full));
    EXPECT_TRUE(engine_allowed(random, free));
    EXPECT_FALSE(engine_allowed(random, strict));
    EXPECT_FALSE(engine_allowed(halves, free));
    EXPECT_FALSE(engine_allowed(short_sums, free));
}

/// Engines that keep the strictest rules: what they can, others can as well.
bool has_engine(const DnnTarget& target, std::shared_ptr<const DnnGraph> graph, bool tensor_cores) {
    std::vector<PlanVariant> variants;
    variants.push_back({.graph = std::move(graph), .rest = {}});
    const EngineRules rules{.tensor_cores = tensor_cores, .deterministic = true};
    return first_plan(target, variants, rules).found();
}

void expect_engines(std::string_view gpu, ElementType type, bool tensor_cores) {
    const DescribedGpu target(gpu);
    for (const Case& one : cases()) {
        const ConvProblem p = problem_of(16, one.input, one.options, type);
        const std::string what = one.name + ": " + problem_text(p);
        EXPECT_TRUE(has_engine(target, forward_graph(target, p, ConvTail::kNone), tensor_cores))
            << what;
        EXPECT_TRUE(has_engine(target, data_graph(target, p), tensor_cores)) << what;
        EXPECT_TRUE(has_engine(target, filter_graph(target, p), tensor_cores)) << what;
    }
}

TEST_F(Dnn, EveryConvolutionHasADeterministicEngineInFullPrecision) {
    expect_engines(kH100, ElementType::kF32, false);
    expect_engines(kA100, ElementType::kF32, false);
}
TEST_F(Dnn, EveryConvolutionHasADeterministicEngineInTf32) {
    expect_engines(kH100, ElementType::kF32, true);
}
TEST_F(Dnn, EveryConvolutionHasADeterministicEngineInSixteenBits) {
    expect_engines(kH100, ElementType::kBf16, true);
    expect_engines(kA100, ElementType::kBf16, true);
    expect_engines(kH100, ElementType::kF16, true);
}

/// Engines that can do it, in the order of the heuristics.
std::vector<std::int64_t> engines_of(const DnnTarget& target,
                                     const std::shared_ptr<const DnnGraph>& graph,
                                     bool tensor_cores) {
    std::vector<std::int64_t> engines;
    for (EngineConfig& config : engine_configs(target, *graph, {.tensor_cores = tensor_cores})) {
        if (DnnPlan::make(target, graph, std::move(config.descriptor)) != nullptr) {
            engines.push_back(config.engine);
        }
    }
    return engines;
}

// So nothing is lost by it where the gradients of a residual block meet.
TEST_F(Dnn, InputGradientsAreAddedByTheEnginesThatAssignThem) {
    const DescribedGpu target(kH100);
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        for (const Case& one : std::vector<Case>{
                 {"first of a block of ResNet-50", {256, 56, 56}, {.channels = 64, .kernel = 1}},
                 {"projection", {256, 56, 56}, {.channels = 512, .kernel = 1, .stride = 2}},
                 {"ResNet-20", {16, 32, 32}, {.channels = 16, .kernel = 3, .padding = 1}}}) {
            const ConvProblem p = problem_of(64, one.input, one.options, type);
            const auto assign = engines_of(target, data_graph(target, p), true);
            EXPECT_FALSE(assign.empty()) << one.name;
            EXPECT_EQ(engines_of(target, data_graph(target, p, true), true), assign) << one.name;
        }
    }
}

// Why there are kernels of our own: bfloat16 lacks the engines that half precision has first.
TEST_F(Dnn, DepthwiseConvolutionsInBfloat16HaveOnlyEnginesForAnyGroups) {
    const DescribedGpu target(kH100);
    const auto engines = [&](ElementType type) {
        const ConvProblem p =
            problem_of(64, Shape{144, 56, 56},
                       {.channels = 144, .kernel = 3, .padding = 1, .groups = 144}, type);
        return std::vector{engines_of(target, forward_graph(target, p, ConvTail::kNone), true),
                           engines_of(target, data_graph(target, p), true),
                           engines_of(target, filter_graph(target, p), true)};
    };
    const auto half = engines(ElementType::kF16);
    const auto bfloat = engines(ElementType::kBf16);
    for (std::size_t direction = 0; direction < half.size(); ++direction) {
        ASSERT_FALSE(bfloat[direction].empty());
        const std::int64_t first = half[direction].front();
        if (std::count(bfloat[direction].begin(), bfloat[direction].end(), first) > 0) {
            GTEST_SKIP() << "cuDNN " << dnn().version() << " has engine " << first
                         << " for bfloat16: measure whether kernels of our own are still worth it";
        }
    }
}

TEST_F(Dnn, ConfigurationsOfAnEngineDifferInTheirKnobs) {
    const DescribedGpu target(kH100);
    const ConvProblem p =
        problem_of(256, Shape{256, 56, 56}, {.channels = 64, .kernel = 1}, ElementType::kBf16);
    std::set<std::pair<std::int64_t, std::string>> seen;
    std::map<std::int64_t, int> of_engine;
    for (const EngineConfig& config :
         engine_configs(target, *forward_graph(target, p, ConvTail::kNone), {})) {
        seen.insert({config.engine, config.knobs});
        ++of_engine[config.engine];
    }
    EXPECT_GE(seen.size(), 10U);
    EXPECT_GE(std::max_element(of_engine.begin(), of_engine.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; })
                  ->second,
              5)
        << "why a limit for one engine leaves others their turn";
}

TEST(Fusion, IsTriedForLargeOutputs) {
    const auto worth = [](std::int64_t samples, ElementType type) {
        return worth_fusing(problem_of(samples, Shape{64, 32, 32},
                                       {.channels = 64, .kernel = 3, .padding = 1}, type));
    };
    EXPECT_TRUE(worth(128, ElementType::kF32));  // 32 MiB
    EXPECT_FALSE(worth(127, ElementType::kF32));
    EXPECT_FALSE(worth(128, ElementType::kBf16));
    EXPECT_TRUE(worth(256, ElementType::kBf16));
}

// Engines with a tail are compiled when they are needed, which takes a driver: here only the graph.
TEST_F(Dnn, GraphsWithBiasAndReluAreTaken) {
    const DescribedGpu target(kH100);
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        const ConvProblem p =
            problem_of(128, Shape{64, 32, 32}, {.channels = 128, .kernel = 3, .padding = 1}, type);
        for (const ConvTail tail : {ConvTail::kBias, ConvTail::kBiasRelu, ConvTail::kRelu}) {
            const std::shared_ptr<const DnnGraph> graph = forward_graph(target, p, tail);
            EXPECT_EQ(graph->has(kBias), tail != ConvTail::kRelu);
            EXPECT_FALSE(graph->has(kMiddle));
        }
    }
}

}  // namespace
}  // namespace cohort::cuda
