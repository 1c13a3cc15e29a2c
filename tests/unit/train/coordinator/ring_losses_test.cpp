// Losses in jobs on rings, workers on threads and the real coordinator's flow: whoever is lost,
// wherever its round stood, those left go on, and every sample is applied exactly once.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

#include "cohort/core/error.hpp"
#include "support/train/ring_replay.hpp"

namespace cohort {
namespace {

using test::Died;
using test::expect_accounts;
using test::expect_replayed;
using test::ring_plan;
using test::RingJob;
using Stage = test::LocalRounds::Stage;

/// Ends worker `worker` when it reaches `stage` of round `round`.
void kill_at(RingJob& job, int worker, Stage stage, std::uint64_t round) {
    job.rounds.at = [=](Stage at, std::uint64_t in, int rank) {
        if (rank == worker && at == stage && in == round) {
            throw Died("killed by the test");
        }
    };
}

class RingLoss : public testing::TestWithParam<Stage> {};

TEST_P(RingLoss, OfAMemberInMidRound) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2}, {3}), 960);
    kill_at(job, 1, GetParam(), GetParam() == Stage::kMake ? 0 : 4);
    job.begin();
    job.finish();
    EXPECT_EQ(job.lost, std::set<int>{1});
    expect_replayed(job, {0, 2});
    expect_accounts(job, 960);
}

INSTANTIATE_TEST_SUITE_P(Stages, RingLoss,
                         testing::Values(Stage::kMake, Stage::kBegin, Stage::kReady, Stage::kFinish,
                                         Stage::kShared, Stage::kCompleted));

/// Each set of members that complete the round in which another one dies.
TEST(RingLosses, ARoundThatSomebodyHasCompletedIsCommitted) {
    for (const std::set<int>& completing :
         {std::set<int>{0}, std::set<int>{2}, std::set<int>{0, 2}, std::set<int>{}}) {
        RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 960);
        kill_at(job, 1, Stage::kCompleted, 5);
        job.rounds.completes = [&completing](std::uint64_t round, int rank) {
            return round != 5 || rank == 1 || completing.contains(rank);
        };
        job.begin();
        job.finish();
        const std::size_t voided = static_cast<std::size_t>(std::count_if(
            job.books.outcomes.begin(), job.books.outcomes.end(),
            [](const PushOutcome& one) { return one.returned == ReturnReason::kVoidRound; }));
        EXPECT_GT(voided, 0U) << "the grant after it at least";
        const auto& fifth = job.messenger.rounds.at(5);
        const bool committed =
            std::any_of(job.books.updates.begin(), job.books.updates.end(),
                        [&fifth](const test::AppliedUpdate& one) {
                            return one.leases.front() == fifth.members.front().lease;
                        });
        EXPECT_EQ(committed, !completing.empty());
        expect_replayed(job, {0, 2});
        expect_accounts(job, 960);
    }
}

TEST(RingLosses, TheOneThatAloneHadCompletedTheRoundIsLostToo) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2, 3}), 960);
    kill_at(job, 1, Stage::kCompleted, 5);
    job.rounds.completes = [](std::uint64_t round, int rank) {
        return round != 5 || rank == 1 || rank == 3;
    };
    std::atomic<bool> again{false};
    job.on_message = [&](const Message& message) {
        if (message.kind == static_cast<std::uint16_t>(RingMessageKind::kRecovered) && !again) {
            const auto answer = decode<Recovered>(message.body);
            again = answer.worker == 3;
            if (again) {
                job.messenger.excluded.insert(3);  // its state never comes
            }
        }
    };
    job.begin();
    job.until([&] { return again.load(); });
    job.lose(3);
    job.finish();
    EXPECT_EQ(job.lost, (std::set<int>{1, 3}));
    expect_replayed(job, {0, 2});
    expect_accounts(job, 960);
}

/// Members are two rounds further than the coordinator knows.
TEST(RingLosses, OfTheReporterBeforeTwoReports) {
    RingJob job("smallcnn", 3, ring_plan({0, 1}, {2}), 960);
    job.begin();
    job.until_updates(5);
    job.holds = [](const Message& message) {
        return message.kind == static_cast<std::uint16_t>(MessageKind::kRoundDone);
    };
    job.until([&] { return job.held.size() == 2; });
    job.holds = {};
    const std::size_t booked = job.books.updates.size();
    job.lose(0);
    job.until([&] { return job.books.updates.size() >= booked + 2; });
    job.finish();
    expect_replayed(job, {1});
    expect_accounts(job, 960);
}

/// A member forgets older orders when another one is lost: also that to send a rider parameters.
TEST(RingLosses, ARiderWhoseParametersWereForgottenGetsThem) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2}, {3}), 960);
    job.begin();
    job.until_updates(3);
    job.lose(3);
    job.until_updates(6);
    job.messenger.dropped.insert(static_cast<std::uint16_t>(RingMessageKind::kSendState));
    job.come_back(3);
    job.until_updates(10);
    job.messenger.dropped.clear();
    job.lose(1);
    job.finish();
    expect_replayed(job, {0, 2});
    expect_accounts(job, 960);
}

TEST(RingLosses, OfARiderOnlyReturnsItsLease) {
    RingJob job("smallcnn", 3, ring_plan({0, 1}, {2}), 960);
    job.job.options.inject = "rank=2,cpu=0.2";
    job.begin();
    job.until_updates(6);
    job.lose(2);
    const std::uint64_t epoch = job.messenger.epoch;
    job.finish();
    EXPECT_EQ(job.messenger.epoch, epoch) << "the ring does not notice";
    expect_replayed(job, {0, 1});
    expect_accounts(job, 960);
}

/// Riders of a lost parent get another one and lose at most what they had begun.
TEST(RingLosses, OfAParent) {
    for (const std::uint64_t round : {3, 4, 5, 6}) {
        RingJob job("smallcnn", 5, ring_plan({0, 1, 2}, {3, 4}), 1920);
        kill_at(job, 1, Stage::kShared, round);
        job.begin();
        job.finish();
        const auto late = [&job](int rider) {
            return std::any_of(job.books.updates.end() - 10, job.books.updates.end(),
                               [&](const test::AppliedUpdate& update) {
                                   return std::any_of(
                                       update.leases.begin(), update.leases.end(),
                                       [&](std::uint64_t lease) {
                                           const auto report = job.reports.find(lease);
                                           return report != job.reports.end() &&
                                                  report->second.ticket.id.worker == rider;
                                       });
                               });
        };
        EXPECT_TRUE(late(3)) << "it goes on";
        EXPECT_TRUE(late(4)) << "it goes on";
        expect_replayed(job, {0, 2});
        expect_accounts(job, 1920);
    }
}

/// A parent did not complete the round that took its rider's gradient, another member did: the one
/// that reports it, or the other.
TEST(RingLosses, OfAMemberBesidesAParentThatIsBroughtUp) {
    for (const std::uint64_t round : {3, 4, 5, 6}) {
        for (const int completing : {0, 2}) {
            RingJob job("smallcnn", 6, ring_plan({0, 1, 2}, {3, 4, 5}), 1920);
            kill_at(job, 1, Stage::kCompleted, round);
            job.rounds.completes = [round, completing](std::uint64_t in, int rank) {
                return in != round || rank == 1 || rank == completing;
            };
            job.begin();
            job.finish();
            std::map<int, std::int64_t> last;  // version that a rider has worked on
            for (const auto& [lease, report] : job.reports) {
                const PushTicket& ticket = report.ticket;
                last[ticket.id.worker] = std::max(last[ticket.id.worker], ticket.version);
            }
            for (const int rider : {3, 4, 5}) {
                EXPECT_GT(last[rider], static_cast<std::int64_t>(round) + 2) << "it goes on";
            }
            expect_replayed(job, {0, 2});
            expect_accounts(job, 1920);
        }
    }
}

/// A frozen member is lost; when it thaws it rides, then is a member again.
TEST(RingLosses, WhoComesBackRidesAndBecomesAMemberAgain) {
    RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 1920);
    job.begin();
    job.until_updates(4);
    job.lose(2);
    job.until_updates(8);
    job.flow->install({ring_plan({0, 1}), {}});
    job.until_updates(12);
    job.come_back(2);
    const auto rode = [&job] {
        return std::any_of(job.reports.begin(), job.reports.end(), [](const auto& one) {
            const PushId& push = one.second.ticket.id;
            return push.worker == 2 && push.incarnation == 1;
        });
    };
    job.until(rode);
    job.flow->install({ring_plan({0, 1, 2}), {}});
    job.until([&] { return job.books.plans.size() == 2; });
    job.finish();
    expect_replayed(job, {0, 1, 2});
    expect_accounts(job, 1920);
}

/// It comes back and is lost again before the ring has recovered: it is not given anything.
TEST(RingLosses, WhoIsLostAgainDuringTheRecoveryStaysAway) {
    RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 960);
    job.begin();
    job.until_updates(4);
    job.lose(2);
    job.come_back(2);
    job.lose(2);
    job.finish();
    EXPECT_EQ(job.books.engine().incarnation(2), 0U) << "it was never let in";
    expect_replayed(job, {0, 1});
    expect_accounts(job, 960);
}

/// Gradients of riders that no round took are with their parents when all leases have come back.
TEST(RingLosses, OfARiderAndItsParentAfterTheEnd) {
    RingJob job("smallcnn", 4, ring_plan({0, 1}, {2, 3}), 960);
    bool waits = false;  // a ticket of worker 2 that comes too late for the granted rounds
    job.on_message = [&](const Message& message) {
        if (waits) {
            job.books.session().stop();
        }
        waits = job.books.updates.size() > 3 &&
                message.kind == static_cast<std::uint16_t>(MessageKind::kPushReport) &&
                decode<PushReport>(message.body).ticket.id.worker == 2;
    };
    job.begin();
    job.finish();
    job.books.leases().return_all();
    job.lose(2);
    job.lose(1);
    job.until([&] { return job.flow->quiet(); });
    EXPECT_EQ(job.books.leases().accounts().applied, job.books.applied());
}

TEST(RingLosses, OfAWorkerThatIsAboutToEnter) {
    RingJob job("smallcnn", 4, ring_plan({0, 1}, {2, 3}), 960);
    job.job.options.inject = "rank=2,cpu=0.1";
    job.begin();
    job.until_updates(3);
    job.flow->install({ring_plan({0, 1, 2, 3}), {}});
    job.lose(2);
    job.finish();
    EXPECT_EQ(job.books.plans.size(), 1U);
    expect_replayed(job, {0, 1, 3});
    expect_accounts(job, 960);
}

TEST(RingLosses, OfTheMemberThatBringsAnotherUp) {
    RingJob job("smallcnn", 4, ring_plan({1, 2}, {0, 3}), 960);
    job.begin();
    job.until_updates(3);
    job.flow->install({ring_plan({1, 2, 3}, {0}), {}});
    job.until([&] { return !job.books.plans.empty(); });
    job.lose(1);
    job.finish();
    expect_replayed(job, {2, 3});
    expect_accounts(job, 960);
}

TEST(RingLosses, OfAMemberWhileAPlanWaits) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2}, {3}), 960);
    job.job.options.inject = "rank=3,cpu=0.1";
    kill_at(job, 1, Stage::kShared, 6);
    job.begin();
    job.until_updates(4);
    job.flow->install({ring_plan({0, 1, 2, 3}), {}});
    job.finish();
    EXPECT_EQ(job.books.plans.size(), 1U);
    expect_replayed(job, {0, 2, 3});
    expect_accounts(job, 960);
}

/// What is asked for while the others compare what they hold is done once all hold the same.
TEST(RingLosses, RequestsDuringARecoveryComeAfterIt) {
    RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 480);
    job.begin();
    job.finish();
    std::vector<EvaluatedPart> parts;
    job.on_other = [&parts](const Message& message) {
        if (message.kind == static_cast<std::uint16_t>(MessageKind::kEvaluated)) {
            parts.push_back(decode<EvaluatedPart>(message.body));
        }
    };
    job.lose(1);
    EXPECT_FALSE(job.flow->quiet());
    EXPECT_EQ(job.flow->request({.evaluation = 9, .snapshot = {}}), 2);
    EXPECT_EQ(job.flow->evaluators(), (std::vector<int>{0, 2}));
    job.until([&] { return parts.size() >= 2; });
    EXPECT_EQ(parts[0].id, 9U);
    EXPECT_EQ(parts[1].id, 9U);
    EXPECT_NE(parts[0].part, parts[1].part);
}

TEST(RingLosses, AnotherMemberSendsTheSnapshotOfALostOne) {
    RingJob job("smallcnn", 3, ring_plan({1, 2}, {0}), 480);
    job.begin();
    job.finish();
    std::vector<int> from;
    job.on_other = [&from](const Message& message) {
        if (message.kind == static_cast<std::uint16_t>(MessageKind::kGathered)) {
            from.push_back(message.from.rank);
        }
    };
    UpdateExtras extras;
    extras.snapshot.gather = 7;
    job.flow->request(extras);
    job.lose(1);
    job.until([&] { return !from.empty(); });
    EXPECT_EQ(from, std::vector<int>{2});
}

/// A group's own exchange breaks like the ring's.
TEST(RingLosses, OfAMemberInItsGroup) {
    for (const Stage stage : {Stage::kMake, Stage::kReady, Stage::kShared}) {
        SyncPlan plan = ring_plan({0, 1, 2, 3});
        plan.work = Work::kDelta;
        plan.local_steps = 3;
        plan.group = 2;
        RingJob job("smallcnn", 4, plan, 960);
        std::atomic<int> times{0};
        job.rounds.at = [&times, stage](Stage at, std::uint64_t /*round*/, int rank) {
            if (rank == 3 && at == stage && ++times == (stage == Stage::kMake ? 2 : 7)) {
                throw Died("killed by the test");
            }
        };
        job.begin();
        job.finish();
        EXPECT_EQ(job.lost, std::set<int>{3});
        expect_accounts(job, 960);
        const std::vector<float> first = job.gather(0);
        EXPECT_EQ(job.gather(1), first);
        EXPECT_EQ(job.gather(2), first);
    }
}

/// Worker 2 waits in its group for 3, which is still between two rounds, when 1 of the other group
/// dies: 3 never begins that round.
TEST(RingLosses, OfAMemberInAnotherGroup) {
    SyncPlan plan = ring_plan({0, 1, 2, 3});
    plan.work = Work::kDelta;
    plan.local_steps = 3;
    plan.group = 2;
    RingJob job("smallcnn", 4, plan, 960);
    std::atomic<bool> waits{false};
    std::atomic<bool> gone{false};
    std::array<std::map<Stage, int>, 4> reached;  // three steps and the ring's own sum in a round
    job.rounds.at = [&](Stage at, std::uint64_t /*round*/, int rank) {
        const int times = ++reached.at(static_cast<std::size_t>(rank))[at];
        if (rank == 2 && at == Stage::kShared && times == 9) {
            waits = true;
        } else if (rank == 3 && at == Stage::kCompleted && times == 8) {
            gone.wait(false);
        } else if (rank == 1 && at == Stage::kBegin && times == 9) {
            waits.wait(false);
            throw Died("killed by the test");
        }
        waits.notify_all();
    };
    job.begin();
    job.until([&] { return job.lost.contains(1); });
    gone = true;
    gone.notify_all();
    job.finish();
    expect_accounts(job, 960);
    const std::vector<float> first = job.gather(0);
    EXPECT_EQ(job.gather(2), first);
    EXPECT_EQ(job.gather(3), first);
}

/// Whoever is left goes on alone.
TEST(RingLosses, OneAfterTheOther) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2, 3}), 960);
    job.rounds.at = [](Stage at, std::uint64_t round, int rank) {
        if (rank > 0 && at == Stage::kShared && round == static_cast<std::uint64_t>(3 + 4 * rank)) {
            throw Died("killed by the test");
        }
    };
    job.begin();
    job.finish();
    EXPECT_EQ(job.lost, (std::set<int>{1, 2, 3}));
    expect_replayed(job, {0});
    expect_accounts(job, 960);
}

}  // namespace
}  // namespace cohort
