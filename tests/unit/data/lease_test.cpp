#include "cohort/data/lease.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

constexpr OrderOptions kOrder{.seed = 11, .window_chunks = 3};

SampleSetInfo small_set() {
    return test::set_info({1, 2, 2}, SampleType::kU8, 103, 8);
}

/// Takes and applies leases of n samples until none is left.
std::vector<std::int64_t> drain(LeaseLedger& book, std::int64_t n) {
    std::vector<std::int64_t> ids;
    while (const std::optional<Lease> lease = book.take(n)) {
        ids.insert(ids.end(), lease->samples.begin(), lease->samples.end());
        EXPECT_TRUE(book.mark_applied(lease->id));
    }
    return ids;
}

void expect_balanced(const LeaseAccount& account) {
    EXPECT_EQ(account.leased, account.applied + account.returned + account.outstanding);
}

TEST(LeaseLedger, SameOrderWhateverTheLeaseSizes) {
    LeaseLedger reference(small_set(), kOrder, 3 * 103);
    const std::vector<std::int64_t> expected = drain(reference, 1);
    EXPECT_EQ(expected.size(), 3U * 103);
    EXPECT_TRUE(reference.finished());
    for (const std::int64_t n : {7, 32, 103, 1000}) {
        LeaseLedger book(small_set(), kOrder, 3 * 103);
        EXPECT_EQ(drain(book, n), expected) << n;
    }
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> ids(
            expected.begin() + static_cast<std::ptrdiff_t>(epoch * 103),
            expected.begin() + static_cast<std::ptrdiff_t>((epoch + 1) * 103));
        std::sort(ids.begin(), ids.end());
        for (std::int64_t id = 0; id < 103; ++id) {
            EXPECT_EQ(ids[static_cast<std::size_t>(id)], id);
        }
    }
}

TEST(LeaseLedger, LastLeaseOfAnEpochIsShort) {
    LeaseLedger book(small_set(), kOrder);
    const std::optional<Lease> first = book.take(100);
    const std::optional<Lease> second = book.take(100);
    const std::optional<Lease> third = book.take(100);
    EXPECT_EQ(first->size(), 100);
    EXPECT_EQ(second->size(), 3);
    EXPECT_EQ(second->position, 100);
    EXPECT_EQ(third->epoch, 1U);
    EXPECT_EQ(third->position, 0);
    EXPECT_EQ(third->size(), 100);
}

TEST(LeaseLedger, LimitCutsTheLastLease) {
    LeaseLedger book(small_set(), kOrder, 50);
    EXPECT_EQ(book.take(32)->size(), 32);
    EXPECT_EQ(book.take(32)->size(), 18);
    EXPECT_FALSE(book.take(32).has_value());
    EXPECT_FALSE(book.finished());
}

TEST(LeaseLedger, ReturnedLeasesGoOutFirstAndOnce) {
    LeaseLedger book(small_set(), kOrder, 103);
    const Lease a = *book.take(10);
    const Lease b = *book.take(10);
    const Lease c = *book.take(10);
    EXPECT_TRUE(book.mark_returned(a.id));
    EXPECT_TRUE(book.mark_returned(c.id));
    EXPECT_TRUE(book.mark_applied(b.id));
    const Lease again = *book.take(10);
    EXPECT_EQ(again.samples, a.samples);
    EXPECT_EQ(again.position, a.position);
    EXPECT_NE(again.id, a.id);
    const Lease part = *book.take(4);  // a shorter one: the rest stays in line
    EXPECT_EQ(part.samples, std::vector(c.samples.begin(), c.samples.begin() + 4));
    const Lease rest = *book.take(10);
    EXPECT_EQ(rest.samples, std::vector(c.samples.begin() + 4, c.samples.end()));
    EXPECT_EQ(book.take(10)->position, 30);
    expect_balanced(book.account());
    EXPECT_EQ(book.account().returned, 20);
}

TEST(LeaseLedger, ALeaseEndsOnce) {
    LeaseLedger book(small_set(), kOrder);
    const Lease lease = *book.take(10);
    EXPECT_TRUE(book.mark_returned(lease.id));
    EXPECT_FALSE(book.mark_applied(lease.id));  // revoked
    EXPECT_FALSE(book.mark_returned(lease.id));
    EXPECT_FALSE(book.mark_applied(999));
    EXPECT_EQ(book.account(), (LeaseAccount{.leased = 10, .returned = 10}));
    EXPECT_THROW(static_cast<void>(book.take(0)), UsageError);
}

TEST(LeaseLedger, ReturnAfterTheLimitIsLeasedAgain) {
    LeaseLedger book(small_set(), kOrder, 20);
    const Lease a = *book.take(10);
    const Lease b = *book.take(10);
    EXPECT_FALSE(book.take(10).has_value());
    EXPECT_TRUE(book.mark_applied(b.id));
    EXPECT_TRUE(book.mark_returned(a.id));
    const Lease again = *book.take(10);
    EXPECT_TRUE(book.mark_applied(again.id));
    EXPECT_TRUE(book.finished());
    EXPECT_FALSE(book.take(10).has_value());
}

TEST(LeaseLedger, ResumeAnywhereEqualsUninterrupted) {
    LeaseLedger reference(small_set(), kOrder, 3 * 103);
    const std::vector<std::int64_t> expected = drain(reference, 16);
    for (int stop_after = 0; stop_after <= 20; ++stop_after) {
        LeaseLedger book(small_set(), kOrder, 3 * 103);
        std::vector<std::int64_t> ids;
        for (int i = 0; i < stop_after; ++i) {
            const Lease lease = *book.take(16);
            ids.insert(ids.end(), lease.samples.begin(), lease.samples.end());
            EXPECT_TRUE(book.mark_applied(lease.id));
        }
        // Two leases were prefetched but not used when the run stopped.
        const std::optional<Lease> ahead = book.take(16);
        const std::optional<Lease> further = book.take(16);
        const LeaseState state = book.state();
        EXPECT_EQ(state.pending.size(),
                  static_cast<std::size_t>(ahead.has_value()) + further.has_value());
        LeaseLedger resumed(small_set(), kOrder, 3 * 103, state);
        const std::vector<std::int64_t> rest = drain(resumed, 16);
        ids.insert(ids.end(), rest.begin(), rest.end());
        EXPECT_EQ(ids, expected) << stop_after;
        EXPECT_EQ(resumed.account().applied, 3 * 103);
        EXPECT_TRUE(resumed.finished());
        expect_balanced(resumed.account());
    }
}

/// Takes all that is left, four leases ahead of the one in work, as the training loop does.
std::vector<std::int64_t> drain_ahead(LeaseLedger& book, std::deque<Lease> ahead) {
    std::vector<std::int64_t> ids;
    while (true) {
        while (ahead.size() < 4) {
            std::optional<Lease> lease = book.take(16);
            if (!lease) {
                break;
            }
            ahead.push_back(std::move(*lease));
        }
        if (ahead.empty()) {
            return ids;
        }
        const Lease lease = std::move(ahead.front());
        ahead.pop_front();
        ids.insert(ids.end(), lease.samples.begin(), lease.samples.end());
        EXPECT_TRUE(book.mark_applied(lease.id));
    }
}

TEST(LeaseLedger, ResumedBookHandsOutInTheOrderOfTheRunningOne) {
    LeaseLedger book(small_set(), kOrder, 2 * 103);
    std::deque<Lease> ahead;
    for (int i = 0; i < 4; ++i) {
        ahead.push_back(*book.take(16));
    }
    for (int i = 0; i < 2; ++i) {  // the first two are dropped: they come again after the others
        EXPECT_TRUE(book.mark_returned(ahead.front().id));
        ahead.pop_front();
    }
    ahead.push_back(*book.take(16));
    const LeaseState saved = book.state();
    LeaseLedger resumed(small_set(), kOrder, 2 * 103, saved);
    EXPECT_EQ(resumed.state().pending, saved.pending);

    LeaseLedger stopped(small_set(), kOrder, 2 * 103, saved);
    std::vector<Lease> unused;
    for (int i = 0; i < 3; ++i) {
        unused.push_back(*stopped.take(16));
    }
    for (const Lease& lease : unused) {
        EXPECT_TRUE(stopped.mark_unused(lease.id));
    }
    EXPECT_EQ(stopped.state().pending, saved.pending) << "nobody has worked on them";
    expect_balanced(stopped.account());

    const std::vector<std::int64_t> expected = drain_ahead(book, ahead);
    EXPECT_EQ(drain_ahead(resumed, {}), expected);
    EXPECT_EQ(drain_ahead(stopped, {}), expected);
}

TEST(LeaseLedger, WaitingLeasesAreCutAtALowerLimit) {
    LeaseLedger book(small_set(), kOrder, 103);
    EXPECT_TRUE(book.mark_applied(book.take(10)->id));
    static_cast<void>(book.take(10));
    static_cast<void>(book.take(10));
    LeaseLedger same(small_set(), kOrder, 10, book.state());
    EXPECT_FALSE(same.take(10).has_value());
    EXPECT_TRUE(same.finished());
    LeaseLedger more(small_set(), kOrder, 25, book.state());
    EXPECT_EQ(drain(more, 10).size(), 15U);
    EXPECT_EQ(more.account().applied, 25);
    LeaseLedger whole(small_set(), kOrder, 103, more.state());
    EXPECT_EQ(drain(whole, 10).size(), 78U) << "what was cut off is still there";
}

TEST(LeaseLedger, ForeignStateIsRefused) {
    const auto refused = [](const LeaseState& state) {
        EXPECT_THROW(LeaseLedger(small_set(), kOrder, 1000, state), UsageError);
    };
    refused({.position = 104});
    refused({.position = -1});
    refused({.position = 50, .pending = {{0, 45, 10}}});
    refused({.epoch = 1, .position = 50, .pending = {{0, 100, 10}}});
    refused({.position = 50, .pending = {{0, 0, 0}}});
    refused({.position = 50, .pending = {{1, 0, 5}}});
}

TEST(LeaseLedger, RandomHistoriesApplyEverySampleExactlyOnce) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Rng rng(seed, RngPurpose::kTest);
        LeaseLedger book(small_set(), kOrder, 2 * 103);
        std::vector<Lease> out;
        std::map<std::pair<std::uint32_t, std::int64_t>, int> applied;
        while (!book.finished()) {
            const std::uint32_t choice = rng.next_below(3);
            if (choice == 0 || out.empty()) {
                if (std::optional<Lease> lease = book.take(1 + rng.next_below(40))) {
                    out.push_back(std::move(*lease));
                }
            } else {
                const auto at = rng.next_below(static_cast<std::uint32_t>(out.size()));
                const Lease lease = out[at];
                out.erase(out.begin() + at);
                if (choice == 1) {
                    ASSERT_TRUE(book.mark_returned(lease.id));
                } else {
                    ASSERT_TRUE(book.mark_applied(lease.id));
                    for (const std::int64_t id : lease.samples) {
                        ++applied[{lease.epoch, id}];
                    }
                }
            }
            expect_balanced(book.account());
        }
        EXPECT_EQ(applied.size(), 2U * 103);
        for (const auto& [sample, times] : applied) {
            EXPECT_EQ(times, 1);
        }
        EXPECT_EQ(book.account().outstanding, 0);
    }
}

}  // namespace
}  // namespace cohort
