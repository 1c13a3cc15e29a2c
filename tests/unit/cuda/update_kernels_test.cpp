// The optimizers' CUDA kernels themselves, run on the CPU thread by thread
// (support/gpu/cuda_on_cpu.hpp) in the place of a GPU: the bits of the CPU's loops.
#include <gtest/gtest.h>

#include "support/gpu/update_rules.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

/// With a tensor for several blocks of threads.
FlatLayout large_layout() {
    FlatLayout layout = test::mixed_layout();
    layout.add("large.weight", Shape{4000}, true);
    return layout;
}

class UpdateKernels : public testing::TestWithParam<test::RuleCase> {
protected:
    static void compare(std::int64_t begin, std::int64_t end) {
        const auto gpu = make_cuda_device(0);
        test::expect_the_bits_of_the_loops(GetParam(), large_layout(), begin, end, *gpu);
    }
};

TEST_P(UpdateKernels, GiveTheBitsOfTheLoops) {
    compare(0, large_layout().total());
}

TEST_P(UpdateKernels, GiveThemForARangeThatCutsThroughTensors) {
    const std::int64_t end = large_layout().total() - 3;
    compare(4, end);  // groups of four floats
    compare(7, end);  // one by one
}

INSTANTIATE_TEST_SUITE_P(Rules, UpdateKernels, testing::ValuesIn(test::rule_cases()));

}  // namespace
}  // namespace cohort
