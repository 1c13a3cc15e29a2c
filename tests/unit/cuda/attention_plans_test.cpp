// cuDNN's fused engines for attention, of GPUs that are only described. They are compiled when a
// plan is made, which takes a driver: what is asked here is which configurations of engines the
// heuristics name, after cuDNN has checked that they can do the graph. Nothing is run.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "layers/cuda/dnn/attention_graphs.hpp"
#include "support/gpu/described_gpu.hpp"

namespace cohort::cuda {
namespace {

/// With a driver's library, or the toolkit's stand-in for it, which cuDNN looks for before it says
/// what its engines can do.
class AttentionEngines : public DescribedGpuTest {
protected:
    void SetUp() override {
        DescribedGpuTest::SetUp();
        if (!IsSkipped() && dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr &&
            dlopen(COHORT_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
            GTEST_SKIP() << "no library of a driver: " << dlerror();
        }
    }
};

struct Engines {
    bool forward;
    bool backward;  ///< the gradient of queries added up in an order that depends on chance
    bool backward_deterministic;
    friend bool operator==(const Engines&, const Engines&) = default;
};
constexpr Engines kAll{true, true, true};
constexpr Engines kNone{false, false, false};

Engines engines_for(const DnnTarget& target, const AttentionProblem& problem) {
    const auto has = [&](const std::shared_ptr<const DnnGraph>& graph, bool deterministic) {
        const bool tensor_cores = problem.type != ElementType::kF32;
        return !engine_configs(target, *graph,
                               {.tensor_cores = tensor_cores, .deterministic = deterministic})
                    .empty();
    };
    return {has(attention_forward_graph(target, problem), true),
            has(attention_backward_graph(target, problem, true), false),
            has(attention_backward_graph(target, problem, false), true)};
}

AttentionProblem problem_of(std::int64_t positions, std::int64_t heads, std::int64_t width) {
    return {.samples = 16, .positions = positions, .heads = heads, .width = width, .causal = true};
}

void expect_all(const DnnTarget& target, AttentionProblem problem) {
    for (const ElementType type : {ElementType::kBf16, ElementType::kF16}) {
        for (const bool causal : {true, false}) {
            problem.type = type;
            problem.causal = causal;
            EXPECT_EQ(engines_for(target, problem), kAll) << problem_text(problem);
        }
    }
}

TEST_F(AttentionEngines, TakeHeadsOfAMultipleOfEightInSixteenBits) {
    for (const std::string_view gpu : {kH100, kA100}) {
        const DescribedGpu target(gpu);
        expect_all(target, problem_of(35, 4, 32));     // gpt of the zoo
        expect_all(target, problem_of(1024, 12, 64));  // GPT-2
        expect_all(target, problem_of(131, 1, 8));
        expect_all(target, problem_of(512, 8, 128));
    }
}

TEST_F(AttentionEngines, TakeNoOtherWidths) {
    for (const std::string_view gpu : {kH100, kA100}) {
        const DescribedGpu target(gpu);
        for (const std::int64_t width : {25, 20, 36}) {  // 25: transformer of the zoo
            EXPECT_EQ(engines_for(target, problem_of(35, 8, width)), kNone) << width;
        }
    }
}

/// So that products are what single precision has.
TEST_F(AttentionEngines, HaveNoBackwardInSinglePrecision) {
    for (const std::string_view gpu : {kH100, kA100}) {
        const DescribedGpu target(gpu);
        AttentionProblem problem = problem_of(1024, 12, 64);
        problem.type = ElementType::kF32;
        const Engines found = engines_for(target, problem);
        EXPECT_FALSE(found.backward);
        EXPECT_FALSE(found.backward_deterministic);
    }
}

}  // namespace
}  // namespace cohort::cuda
