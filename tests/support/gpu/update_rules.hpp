#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "support/optim/optimizer_run.hpp"

// Ways to run the update rules against the CPU's loops.
namespace cohort::test {

struct RuleCase {
    OptimizerKind kind;
    bool nesterov;
    bool decoupled;
};
inline std::vector<RuleCase> rule_cases() {
    return {{OptimizerKind::kSgd, false, false},
            {OptimizerKind::kSgd, true, false},
            {OptimizerKind::kSgd, false, true},
            {OptimizerKind::kAdamW, false, false},
            {OptimizerKind::kAdamW, false, true}};
}

/// An optimizer of [begin, end) on a device whose memory is the host's and one on the CPU do the
/// same updates; parameters and state stay equal.
inline void expect_the_bits_of_the_loops(const RuleCase& rule, const FlatLayout& layout,
                                         std::int64_t begin, std::int64_t end, Device& on) {
    const std::int64_t size = end - begin;
    const OptimizerOptions options{.kind = rule.kind,
                                   .nesterov = rule.nesterov,
                                   .weight_decay = 0.1,
                                   .decoupled = rule.decoupled};
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    const auto loops = make_optimizer(options, layout, begin, end, *device, *stream);
    const auto other_stream = on.create_stream();
    const auto other = make_optimizer(options, layout, begin, end, on, *other_stream);
    std::vector<float> theta = random_floats(size, 1);  // padding too: nobody touches it
    std::vector<float> same = theta;
    std::uint64_t key = 2;
    for (const double fraction : {1.0, 0.25, 0.5, 0.25, 1.0, 2.5, 0.5, 1.0}) {
        const std::vector<float> gradient = random_floats(size, key++);
        loops->update(theta, gradient, fraction, 0.1);
        other->update(same, gradient, fraction, 0.1);
        ASSERT_EQ(theta, same) << "fraction " << fraction;
    }
    const std::vector<float> delta = random_floats(size, key);
    loops->begin_delta(2, 0.1);
    loops->apply(0, theta, delta);
    other->begin_delta(2, 0.1);  // in pieces, one of them not aligned
    constexpr std::size_t kCut = 17;
    const std::span<float> whole(same);
    const std::span<const float> moved(delta);
    other->apply(kCut, whole.subspan(kCut), moved.subspan(kCut));
    other->apply(0, whole.first(kCut), moved.first(kCut));
    EXPECT_EQ(theta, same);
    const auto slots = loops->slots();
    const auto others = other->slots();
    for (std::size_t s = 0; s < slots.size(); ++s) {
        EXPECT_TRUE(std::equal(slots[s].values.begin(), slots[s].values.end(),
                               others[s].values.begin(), others[s].values.end()))
            << slots[s].name;
    }
}

}  // namespace cohort::test
