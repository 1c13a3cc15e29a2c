#include "cohort/comm/operations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Board {
    std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>();
    OperationBoard operations{Clock::Seconds(10), clock};

    void pass(double seconds) { clock->advance(Clock::Seconds(seconds)); }
};

TEST(Operations, AShortWaitIsNoStall) {
    Board board;
    const auto wait = board.operations.begin("parameters", 3);
    board.pass(10);
    EXPECT_THAT(board.operations.check(), IsEmpty());
}

TEST(Operations, EachLimitIsReportedOnceAndTheSecondIsFatal) {
    Board board;
    const auto wait = board.operations.begin("parameters", 3, [] { return std::vector{1, 4}; });
    board.pass(11);
    const auto first = board.operations.check();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].name, "parameters");
    EXPECT_EQ(first[0].sequence, 3U);
    EXPECT_DOUBLE_EQ(first[0].seconds, 11);
    EXPECT_THAT(first[0].missing, ElementsAre(1, 4));
    EXPECT_FALSE(first[0].fatal);
    board.pass(5);
    EXPECT_THAT(board.operations.check(), IsEmpty());
    board.pass(5);
    const auto second = board.operations.check();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_TRUE(second[0].fatal);
    board.pass(50);
    EXPECT_THAT(board.operations.check(), IsEmpty());
}

TEST(Operations, WhatOnlyExcludedRanksHoldUpIsNeverFatal) {
    Board board;
    std::vector<int> missing{1, 4};
    const auto wait = board.operations.begin("ring round", 3, [&missing] { return missing; });
    const auto excluded = [](int rank) { return rank == 4; };
    board.pass(21);
    const auto with_one = board.operations.check(excluded);
    ASSERT_EQ(with_one.size(), 1U);
    EXPECT_TRUE(with_one[0].fatal);
    EXPECT_THAT(with_one[0].missing, ElementsAre(1));

    missing = {4};
    const auto other = board.operations.begin("parameters", 4, [&missing] { return missing; });
    board.pass(21);
    auto stalls = board.operations.check(excluded);
    ASSERT_EQ(stalls.size(), 1U);
    EXPECT_EQ(stalls[0].name, "parameters");
    EXPECT_FALSE(stalls[0].fatal);
    EXPECT_THAT(stalls[0].missing, IsEmpty());

    missing = {2};  // and it is watched from then on as any other
    board.pass(21);
    stalls = board.operations.check(excluded);
    ASSERT_EQ(stalls.size(), 1U);
    EXPECT_TRUE(stalls[0].fatal);
    EXPECT_THAT(stalls[0].missing, ElementsAre(2));
}

TEST(Operations, AWaitThatOnlyWarnsDoesSoAtEveryLimitAndNeverEndsTheJob) {
    Board board;
    const auto wait = board.operations.begin("writing", 1, {}, WaitLimit::kWarn);
    board.pass(10);
    EXPECT_THAT(board.operations.check(), IsEmpty());
    for (int limits = 1; limits < 6; ++limits) {
        board.pass(1);
        const auto stalls = board.operations.check();
        ASSERT_EQ(stalls.size(), 1U) << limits;
        EXPECT_FALSE(stalls[0].fatal);
        EXPECT_DOUBLE_EQ(stalls[0].seconds, 10 * limits + 1);
        EXPECT_THAT(board.operations.check(), IsEmpty());
        board.pass(9);
        EXPECT_THAT(board.operations.check(), IsEmpty());
    }
}

TEST(Operations, AWaitWithoutALimitIsNeverAStallButOnRecord) {
    Board board;
    {
        const auto wait = board.operations.begin("lease", 7, {}, WaitLimit::kNone);
        board.pass(1000);
        EXPECT_THAT(board.operations.check(), IsEmpty());
        EXPECT_THAT(board.operations.last_operations(),
                    ElementsAre("lease (#7): waiting for 1000.000 s"));
    }
    EXPECT_THAT(board.operations.last_operations(), ElementsAre("lease (#7): 1000.000 s"));
}

TEST(Operations, ProgressStartsTheLimitAgainButNotTheDurationOnRecord) {
    Board board;
    {
        auto wait = board.operations.begin("evaluation", 2);
        for (int i = 0; i < 5; ++i) {
            board.pass(9);
            EXPECT_THAT(board.operations.check(), IsEmpty());
            wait.renew();
        }
        board.pass(11);
        ASSERT_EQ(board.operations.check().size(), 1U);
        wait.renew();
        board.pass(11);
        const auto again = board.operations.check();
        ASSERT_EQ(again.size(), 1U);
        EXPECT_FALSE(again[0].fatal);
        EXPECT_DOUBLE_EQ(again[0].seconds, 11);
        board.pass(10);
        const auto last = board.operations.check();
        ASSERT_EQ(last.size(), 1U);
        EXPECT_TRUE(last[0].fatal);
    }
    EXPECT_THAT(board.operations.last_operations(), ElementsAre("evaluation (#2): 77.000 s"));
}

TEST(Operations, RenewingAMovedWaitRenewsTheOneThatHasIt) {
    Board board;
    auto first = board.operations.begin("a", 1);
    OperationBoard::Wait second = std::move(first);
    board.pass(9);
    second.renew();
    board.pass(9);
    EXPECT_THAT(board.operations.check(), IsEmpty());
}

TEST(Operations, WaitsAreRenewedWhileAnotherThreadChecks) {
    Board board;
    auto wait = board.operations.begin("a", 1);
    std::thread renewing([&wait] {
        for (int i = 0; i < 1000; ++i) {
            wait.renew();
        }
    });
    for (int i = 0; i < 1000; ++i) {
        EXPECT_THAT(board.operations.check(), IsEmpty());
    }
    renewing.join();
}

TEST(Operations, AWaitThatEndedIsRememberedAndNoStall) {
    Board board;
    {
        const auto wait = board.operations.begin("parameters", 3);
        board.pass(30);
    }
    EXPECT_THAT(board.operations.check(), IsEmpty());
    const auto running = board.operations.begin("lease", 4);
    board.pass(0.5);
    EXPECT_THAT(board.operations.last_operations(),
                ElementsAre("parameters (#3): 30.000 s", "lease (#4): waiting for 0.500 s"));
}

TEST(Operations, OnlyTheLastOnesAreRemembered) {
    Board board;
    for (std::uint64_t i = 0; i < OperationBoard::kRemembered + 5; ++i) {
        const auto wait = board.operations.begin("round", i);
    }
    const auto lines = board.operations.last_operations();
    ASSERT_EQ(lines.size(), OperationBoard::kRemembered);
    EXPECT_EQ(lines.front(), "round (#5): 0.000 s");
}

TEST(Operations, AMovedWaitEndsOnce) {
    Board board;
    std::optional<OperationBoard::Wait> held;
    {
        auto wait = board.operations.begin("a", 1);
        held.emplace(std::move(wait));
    }
    EXPECT_THAT(board.operations.last_operations(), ElementsAre("a (#1): waiting for 0.000 s"));
    *held = board.operations.begin("b", 2);
    EXPECT_THAT(board.operations.last_operations(),
                ElementsAre("a (#1): 0.000 s", "b (#2): waiting for 0.000 s"));
    held.reset();
    EXPECT_THAT(board.operations.last_operations(),
                ElementsAre("a (#1): 0.000 s", "b (#2): 0.000 s"));
}

TEST(Operations, APauseOfTheProcessIsNotCounted) {
    Board board;
    const auto old = board.operations.begin("old", 1);
    board.pass(9);
    const auto young = board.operations.begin("young", 2);
    board.pass(100);
    board.operations.forgive(Clock::Seconds(100));
    EXPECT_THAT(board.operations.check(), IsEmpty());
    board.pass(2);
    const auto stalls = board.operations.check();
    ASSERT_EQ(stalls.size(), 1U);
    EXPECT_EQ(stalls[0].name, "old");
    EXPECT_DOUBLE_EQ(stalls[0].seconds, 11);
    EXPECT_FALSE(stalls[0].fatal);
}

TEST(Operations, AWaitThatBeganInAPauseDoesNotBeginInTheFuture) {
    Board board;
    board.pass(99);
    const auto wait = board.operations.begin("parameters", 1);
    board.pass(1);
    board.operations.forgive(Clock::Seconds(100));
    board.pass(11);
    EXPECT_EQ(board.operations.check().size(), 1U);
}

TEST(Operations, ALimitOfNothingIsRefused) {
    EXPECT_THROW(OperationBoard(Clock::Seconds(0), std::make_shared<VirtualClock>()), UsageError);
}

}  // namespace
}  // namespace cohort
