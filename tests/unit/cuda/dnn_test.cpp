// Graphs of convolutions and cuDNN's plans for them. cuDNN makes plans for a GPU that is only
// described, so what it can do is known on a machine without one; nothing is run here.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <string_view>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/conv_graphs.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"

namespace cohort::cuda {
namespace {

constexpr std::string_view kH100 =
    R"({"deviceVer":900,"cudaDeviceId":0,"deviceName":"H100","multiProcessorCount":132,)"
    R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,)"
    R"("driverVer":13000,"totalGlobalMem":85029158912})";
constexpr std::string_view kA100 =
    R"({"deviceVer":800,"cudaDeviceId":0,"deviceName":"A100","multiProcessorCount":108,)"
    R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":166912,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,)"
    R"("driverVer":13000,"totalGlobalMem":85029158912})";

/// A GPU that need not be there.
class DescribedGpu final : public DnnTarget {
public:
    explicit DescribedGpu(std::string_view text)
        : properties_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
        properties_.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        static_cast<std::int64_t>(text.size()), text.data());
        properties_.finalize("described GPU");
    }
    void set_on_graph(DnnDescriptor& /*graph*/) const override {}
    void set_on_heuristics(DnnDescriptor& heuristics) const override {
        heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties_);
    }
    void set_on_plan(DnnDescriptor& plan) const override {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_);
    }

private:
    DnnDescriptor properties_;
};

/// Skips where cuDNN is missing, or too old for described GPUs.
class Dnn : public testing::Test {
protected:
    void SetUp() override {
        try {
            if (dnn().version() < 90800) {
                GTEST_SKIP() << "cuDNN " << dnn().version() << " is older than 9.8";
            }
        } catch (const DeviceError& missing) {
            GTEST_SKIP() << missing.what();
        }
    }
};

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
    return first_plan(target, variants, rules).plan != nullptr;
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
