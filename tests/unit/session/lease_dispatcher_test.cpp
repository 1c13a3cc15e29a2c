#include "sched/session/lease_dispatcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LeaseLedger book(std::int64_t limit) {
    SampleSetInfo info;
    info.samples = 100;
    info.chunk_samples = 10;
    return LeaseLedger(info, {.seed = 1}, limit);
}

std::vector<int> workers(const std::vector<DealtLease>& dealt) {
    std::vector<int> indices;
    for (const auto& one : dealt) {
        indices.push_back(one.worker);
    }
    return indices;
}

TEST(LeaseDispatcher, DealsInTurnsSoThatLeasesBelongToWorkersByNumber) {
    LeaseDispatcher dispatcher(book(1000), 1000, {.workers = 3, .batch = 10, .ahead = 2}, {});
    const auto dealt = dispatcher.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 1, 2, 0, 1, 2));
    for (std::size_t i = 0; i < dealt.size(); ++i) {
        EXPECT_EQ(dealt[i].order.position, static_cast<std::int64_t>(10 * i));
    }
    EXPECT_THAT(dispatcher.top_up(), IsEmpty()) << "everybody has two";
    dispatcher.open().applied(dealt[1].order.lease);
    dispatcher.open().applied(dealt[0].order.lease);
    EXPECT_THAT(workers(dispatcher.top_up()), ElementsAre(0, 1)) << "by index, whoever was first";
}

TEST(LeaseDispatcher, NobodyHoldsManyOfTheLastLeases) {
    LeaseDispatcher dispatcher(book(100), 100,
                               {.workers = 2, .batch = 10, .ahead = 3, .share_tail = true}, {});
    const auto dealt = dispatcher.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 1, 0, 1, 0, 1));
    int applied_by_fast = 0;  // worker 1 never ends its first
    for (auto mine = std::vector<std::uint64_t>{dealt[0].order.lease, dealt[2].order.lease,
                                                dealt[4].order.lease};
         !mine.empty(); ++applied_by_fast) {
        dispatcher.open().applied(mine.front());
        mine.erase(mine.begin());
        for (const auto& more : dispatcher.top_up()) {
            ASSERT_EQ(more.worker, 0);
            mine.push_back(more.order.lease);
        }
        EXPECT_LE(mine.size(), 3U);
    }
    EXPECT_EQ(applied_by_fast, 7) << "all but the three that were dealt to worker 1 at the start";
}

TEST(LeaseDispatcher, ClaimsEachLeaseOnceOldestFirst) {
    LeaseDispatcher dispatcher(book(20), 20, {.workers = 1, .batch = 10, .ahead = 4}, {});
    const auto dealt = dispatcher.top_up();
    ASSERT_EQ(dealt.size(), 2U) << "the budget holds no more";
    EXPECT_EQ(dispatcher.open().claim(0)->lease, dealt[0].order.lease);
    EXPECT_EQ(dispatcher.open().claim(0)->lease, dealt[1].order.lease);
    EXPECT_FALSE(dispatcher.open().claim(0));
}

TEST(LeaseDispatcher, AccountsAddUpByReason) {
    LeaseDispatcher dispatcher(book(60), 60, {.workers = 2, .batch = 10, .ahead = 3},
                               {.leased = 7, .returned_non_finite = 7});
    const auto dealt = dispatcher.top_up();
    ASSERT_EQ(dealt.size(), 6U);
    dispatcher.open().applied(dealt[0].order.lease);
    dispatcher.open().returned(dealt[1].order.lease, ReturnReason::kNonFinite);
    dispatcher.open().returned(dealt[2].order.lease, ReturnReason::kVoidRound);
    dispatcher.open().returned(dealt[3].order.lease, ReturnReason::kDropped);
    dispatcher.open().returned(dealt[4].order.lease, ReturnReason::kLost);
    dispatcher.open().return_all();
    const SampleAccounts accounts = dispatcher.open().accounts();
    EXPECT_EQ(accounts.leased, 60 + 7);
    EXPECT_EQ(accounts.applied, 10);
    EXPECT_EQ(accounts.returned_non_finite, 17);
    EXPECT_EQ(accounts.returned_void_round, 10);
    EXPECT_EQ(accounts.returned_dropped, 10);
    EXPECT_EQ(accounts.returned_lost, 10);
    EXPECT_EQ(accounts.returned_stop, 10);
    EXPECT_EQ(accounts.outstanding, 0);
    EXPECT_EQ(dispatcher.open().held(0) + dispatcher.open().held(1), 0U);
    EXPECT_EQ(dispatcher.top_up().size(), 5U) << "what came back goes out again";
}

TEST(LeaseDispatcher, DealsByEachWorkersOwnSizesToThoseWhoAreLive) {
    LeaseDispatcher dispatcher(book(1000), 1000, {.workers = 3, .batch = 10, .ahead = 1}, {});
    dispatcher.set_batches({5, 10, 20});
    dispatcher.set_live(1, false);
    const auto dealt = dispatcher.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 2));
    EXPECT_EQ(dispatcher.open().find(dealt[0].order.lease)->count, 5);
    EXPECT_EQ(dispatcher.open().find(dealt[1].order.lease)->count, 20);
    EXPECT_THAT(dispatcher.open().held_leases(2), ElementsAre(dealt[1].order.lease));
    EXPECT_EQ(dispatcher.open().newest(), dealt[1].order.lease);
    dispatcher.open().returned(dealt[1].order.lease, ReturnReason::kInterrupted);
    EXPECT_EQ(dispatcher.open().find(dealt[1].order.lease), nullptr) << "it returned";
    dispatcher.shorten_next(2, 2);
    const auto shorter = dispatcher.top_up();
    ASSERT_EQ(shorter.size(), 1U);
    EXPECT_EQ(shorter[0].order.count, 2);
    EXPECT_EQ(shorter[0].order.position, dealt[1].order.position) << "of what came back";
    dispatcher.set_live(1, true);
    dispatcher.set_ahead(2, false);
    EXPECT_THAT(workers(dispatcher.top_up()), ElementsAre(1, 0, 1, 2)) << "once shorter is enough";
    const SampleAccounts part = dispatcher.open().part_accounts();
    EXPECT_EQ(part.leased, part.outstanding + 20);
    EXPECT_EQ(part.returned_interrupted, 20);
}

}  // namespace
}  // namespace cohort
