// Losses of all members of a ring: the worker with the newest parameters goes on alone, from what
// it held, which one process computes too, and every sample of the budget is in the result once.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>

#include "support/train/ring_replay.hpp"

namespace cohort {
namespace {

using test::Died;
using test::expect_accounts;
using test::expect_replayed;
using test::ring_plan;
using test::RingJob;
using Stage = test::LocalRounds::Stage;

/// All members leave; the one that was to send the new ones its state is lost before it did. The
/// other one still has all of it.
TEST(RingSuccession, OfTheOneThatWasToSendItsState) {
    RingJob job("smallcnn", 4, ring_plan({0, 1}, {2, 3}), 1920);
    job.begin();
    job.until_updates(3);
    job.messenger.dropped.insert(static_cast<std::uint16_t>(RingMessageKind::kSendState));
    job.flow->install({ring_plan({2, 3}, {0, 1}), {}});
    job.until([&] { return !job.books.plans.empty(); });
    job.messenger.dropped.clear();
    job.lose(0);
    job.finish();
    ASSERT_EQ(job.books.successions.size(), 1U);
    EXPECT_EQ(job.books.successions.front().undone, 0) << "all of it is left";
    expect_accounts(job, 1920);
}

/// Who is left goes on alone with what it held, which one process computes too; the others ride.
void expect_succeeded(RingJob& job, std::int64_t samples) {
    ASSERT_EQ(job.books.successions.size(), 1U);
    const std::vector<RoundMember>& last = job.messenger.rounds.rbegin()->second.members;
    ASSERT_EQ(last.size(), 1U);
    EXPECT_TRUE(job.books.successions.front().why.find(
                    "worker " + std::to_string(last.front().worker)) != std::string::npos);
    expect_replayed(job, {last.front().worker});
    expect_accounts(job, samples);
}

TEST(RingSuccession, OfTheLastMembers) {
    for (const Stage stage : {Stage::kBegin, Stage::kReady, Stage::kShared, Stage::kCompleted}) {
        RingJob job("smallcnn", 4, ring_plan({1, 2}, {0, 3}), 1920);
        job.rounds.at = [stage](Stage at, std::uint64_t in, int rank) {
            if ((rank == 1 || rank == 2) && at == stage && in >= 9) {
                throw Died("killed by the test");
            }
        };
        job.begin();
        job.until([&] { return !job.lost.empty(); });
        job.lose(1);  // the other one may not come to this stage any more
        job.lose(2);
        job.finish();
        expect_succeeded(job, 1920);
    }
}

/// Of two members one is a round behind when the other, which has reported the round, is lost. A
/// rider has the parameters of that round: it goes on, and the member that lives rides with it.
TEST(RingSuccession, OfAMemberThatLivesButIsBehind) {
    RingJob job("smallcnn", 3, ring_plan({1, 2}, {0}), 1920);
    std::atomic<std::uint64_t> last{0};  // round that worker 2 does not complete
    std::uint64_t lease = 0;             // of worker 1 in it
    std::int64_t version = 0;            // that the rider's newest push was computed on
    job.messenger.on_round = [&](const RoundOrder& order) {
        for (const RoundMember& member : order.members) {
            if (last == 0 && order.round > 8 && order.reporter == 1 && member.worker == 1 &&
                !member.riders.empty()) {
                lease = member.lease;
                last = order.round;
            }
        }
    };
    job.rounds.completes = [&last](std::uint64_t round, int rank) {
        return rank != 2 || last == 0 || round != last;
    };
    job.on_message = [&version](const Message& message) {
        if (message.kind == static_cast<std::uint16_t>(MessageKind::kPushReport)) {
            const PushTicket ticket = decode<PushReport>(message.body).ticket;
            version = ticket.id.worker == 0 ? ticket.version : version;
        }
    };
    job.messenger.riders_from = 8;
    job.begin();
    job.until([&] {
        const auto& updates = job.books.updates;
        return last > 0 && !updates.empty() &&
               std::ranges::count(updates.back().leases, lease) == 1 &&
               version == static_cast<std::int64_t>(updates.size());
    });
    job.lose(1);
    job.finish();
    expect_succeeded(job, 1920);
    EXPECT_EQ(job.books.successions.front().undone, 0);
    const RoundMember& alone = job.messenger.rounds.rbegin()->second.members.front();
    EXPECT_EQ(alone.worker, 0);
    const auto of_worker_2 = [](const auto& round) {
        const auto& riders = round.second.members.front().riders;
        return std::ranges::any_of(riders, [](const auto& one) { return one.push.worker == 2; });
    };
    EXPECT_TRUE(std::ranges::any_of(job.messenger.rounds, of_worker_2)) << "it rides";
}

/// Updates that no live worker has in its parameters are undone: their samples are trained again.
TEST(RingSuccession, OfTheLastMemberWhoseRidersAreSlow) {
    RingJob job("smallcnn", 3, ring_plan({1}, {0, 2}), 1920);
    job.begin();
    job.until_updates(12);
    const auto ticket = static_cast<std::uint16_t>(MessageKind::kPushReport);
    job.holds = [ticket](const Message& message) { return message.kind == ticket; };
    job.until_updates(18);  // six more, of which two had been granted with pushes of riders at most
    job.lose(1);
    job.release({ticket});
    job.finish();
    expect_succeeded(job, 1920);
    EXPECT_GT(job.books.successions.front().undone, 0);
    EXPECT_GE(job.books.leases().accounts().returned_lost, job.books.successions.front().samples);
}

/// The report of a round, or of it and the one before, is lost with the member; a rider has the
/// round's parameters, and with them what the coordinator books.
TEST(RingSuccession, OfTheLastMemberBeforeItsReports) {
    for (const std::uint64_t before : {0U, 1U}) {
        RingJob job("smallcnn", 2, ring_plan({1}, {0}), 960);
        std::int64_t told = 0;
        bool silent = false;
        job.holds = [&](const Message& message) {
            if (message.kind == static_cast<std::uint16_t>(MessageKind::kPushReport)) {
                told = decode<PushReport>(message.body).ticket.version;
            } else if (message.kind == static_cast<std::uint16_t>(MessageKind::kRoundDone)) {
                const auto round = decode<RoundReport>(message.body).round;
                const auto grant = job.messenger.rounds.find(round + before);
                silent = silent || (round > 4 && grant != job.messenger.rounds.end() &&
                                    !grant->second.members.front().riders.empty());
                return silent;
            }
            return false;
        };
        job.messenger.riders_from = 4;
        job.begin();
        job.until([&] { return silent; });
        const std::size_t updates = job.books.updates.size() + 1 + before;
        job.until([&] { return told == static_cast<std::int64_t>(updates); });
        job.holds = {};
        job.lose(1);
        job.until([&] { return !job.books.successions.empty(); });
        EXPECT_EQ(job.books.successions.front().after, updates);
        EXPECT_EQ(job.books.successions.front().undone, 0);
        EXPECT_GT(job.books.updates.back().loss_sum, 0) << "of the member, told by the rider";
        job.finish();
        expect_succeeded(job, 960);
    }
}

/// The successor is lost as well, at once or in its first rounds.
TEST(RingSuccession, OfTheSuccessor) {
    for (const std::size_t later : {0U, 1U, 5U}) {
        RingJob job("smallcnn", 4, ring_plan({1}, {0, 2, 3}), 1920);
        job.job.options.inject = "rank=0,cpu=0.3;rank=3,cpu=0.3";
        job.begin();
        job.until_updates(8);
        job.lose(1);
        if (later > 0) {
            job.until_updates(8 + later);
        }
        job.lose(2);
        job.finish();
        expect_accounts(job, 1920);
        const std::vector<RoundMember>& last = job.messenger.rounds.rbegin()->second.members;
        ASSERT_EQ(last.size(), 1U);
        expect_replayed(job, {last.front().worker});
    }
}

/// Members of local steps hold leases for several of them; as riders they do one at a time.
TEST(RingSuccession, OfAMemberOfLocalSteps) {
    for (const bool back : {true, false}) {
        SyncPlan plan = ring_plan({0, 1}, {2});
        plan.work = Work::kDelta;
        plan.local_steps = 4;
        RingJob job("smallcnn", 3, plan, 3840);
        job.job.options.inject = "rank=1,cpu=0.2";  // so that worker 2 succeeds
        job.begin();
        job.until_updates(4);
        job.lose(1);
        if (back) {
            job.until_updates(6);
            job.messenger.riders_from = 6;
            job.come_back(1);
            job.until([&] {
                return std::ranges::any_of(job.reports, [](const auto& report) {
                    return report.second.ticket.id.worker == 1;
                });
            });
        }
        job.lose(0);
        job.finish();
        EXPECT_EQ(job.books.successions.size(), 1U);
        expect_accounts(job, 3840);
    }
}

/// A lone member was frozen: it comes back before or after the others have gone on, with parameters
/// that do not count, and may be a member again.
TEST(RingSuccession, TheLastMemberComesBack) {
    for (const bool early : {true, false}) {
        RingJob job("smallcnn", 3, ring_plan({1}, {0, 2}), 1920);
        job.begin();
        job.until_updates(8);
        job.lose(1);
        if (!early) {
            job.until_updates(12);
        }
        job.come_back(1);
        job.until_updates(20);
        job.flow->install({ring_plan({1, 2}, {0}), {}});
        job.until([&] { return job.books.plans.size() == 2; });
        job.finish();
        expect_accounts(job, 1920);
        const std::vector<float> first = job.gather(1);
        EXPECT_EQ(job.gather(2), first);
    }
}

}  // namespace
}  // namespace cohort
