#include <gtest/gtest.h>

#include "records/timeline/run_timeline.hpp"
#include "support/records/timeline_check.hpp"

namespace cohort {
namespace {

TEST(Timeline, ArrowsLeadFromPushesToUpdatesToComputations) {
    RunTimeline run(2, 1);
    const std::vector<PushId> pushes{{.worker = 0, .sequence = 1}, {.worker = 1, .sequence = 1}};
    for (const int worker : {0, 1}) {
        run.activity(worker, Activity::kCompute, 0, 2 + worker);
        run.activity(worker, Activity::kPush, 2 + worker, 3 + worker);
        run.pushed(pushes[static_cast<std::size_t>(worker)], 0);
    }
    run.updated(1, 4, 4, pushes, 64);
    run.served(0, 4, 4.5);
    run.activity(0, Activity::kWait, 2, 4.5);
    run.activity(0, Activity::kCompute, 4.5, 6);
    run.pushed({.worker = 0, .sequence = 2}, 1);
    run.happened(4, "switch", "from \"a\"\nto b");
    const ParsedTimeline seen(run.timeline().json());
    EXPECT_EQ(seen.arrows("push"), 2U);
    EXPECT_EQ(seen.arrows("release"), 1U) << "of version 1; nothing made version 0";
    EXPECT_DOUBLE_EQ(seen.seconds("worker 0", "compute"), 3.5);
    EXPECT_DOUBLE_EQ(seen.seconds("worker 1 pushes", "push"), 1);
    EXPECT_DOUBLE_EQ(seen.seconds("server 0", "serve"), 0.5);
    EXPECT_EQ(seen.spans("updates").front().args["pushes"], 2);
    ASSERT_EQ(seen.instants.size(), 1U);
    EXPECT_EQ(seen.instants[0]["args"]["detail"], "from \"a\"\nto b");
}

TEST(Timeline, AWorkerThatCameBackNumbersItsPushesAnew) {
    RunTimeline run(1, 0);
    std::int64_t version = 0;
    const auto push_all = [&](std::uint32_t incarnation, std::uint64_t pushes) {
        for (std::uint64_t i = 1; i <= pushes; ++i) {
            const auto at_s = static_cast<double>(version);
            const PushId push{.worker = 0, .incarnation = incarnation, .sequence = i};
            run.activity(0, Activity::kCompute, at_s, at_s + 0.5);
            run.pushed(push, -1);  // of a version that has no update
            run.updated(++version, at_s + 0.75, at_s + 0.75, std::vector{push}, 8);
        }
    };
    push_all(0, 100);
    run.left(0);
    EXPECT_FALSE(run.last_sent(std::vector{PushId{.worker = 0, .sequence = 100}}));
    push_all(1, 10);
    const ParsedTimeline seen(run.timeline().json());
    EXPECT_EQ(seen.arrows("push"), 110U);
}

TEST(Timeline, SpansOfALaneDoNotOverlap) {
    RunTimeline run(1, 0);
    run.activity(0, Activity::kCompute, 0, 2);
    run.activity(0, Activity::kWait, 1, 3);
    run.activity(0, Activity::kPull, 1, 2.5);
    const ParsedTimeline seen(run.timeline().json());
    ASSERT_EQ(seen.spans("worker 0").size(), 2U) << "nothing is left of the last one";
    EXPECT_DOUBLE_EQ(seen.seconds("worker 0", "wait"), 1);
}

TEST(Timeline, TheNewestSpansAreKept) {
    constexpr std::size_t kMost = 1000;
    constexpr std::int64_t kUpdates = 750;  // each is a span, and so is its computation
    RunTimeline run(1, 0, kMost);
    for (std::int64_t i = 0; i < kUpdates; ++i) {
        const auto at_s = static_cast<double>(i);
        const PushId push{.worker = 0, .sequence = static_cast<std::uint64_t>(i + 1)};
        run.activity(0, Activity::kCompute, at_s, at_s + 0.5);
        run.pushed(push, i);
        run.updated(i + 1, at_s + 0.5, at_s + 0.5, std::vector{push}, 8);
    }
    EXPECT_EQ(run.timeline().spans(), kMost);
    const ParsedTimeline seen(run.timeline().json());
    const auto& computed = seen.spans("worker 0");
    EXPECT_EQ(computed.size(), kMost / 2);
    EXPECT_DOUBLE_EQ(computed.back().begin_us, static_cast<double>(kUpdates - 1) * 1e6);
}

}  // namespace
}  // namespace cohort
