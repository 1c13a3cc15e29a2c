// The rules of parameter servers, without ranks, a clock or a cluster.
#include "sched/session/server_scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kBatch = 8;

SampleSetInfo samples(std::int64_t count) {
    SampleSetInfo info;
    info.samples = count;
    info.chunk_samples = 10;
    return info;
}

/// Workers that compute in no time, as soon as they are told to.
class Job final : public EffectHandler, public ServerOrders {
public:
    Job(const std::string& mode, int workers, std::int64_t budget, ServerScheduler::Dealing dealing,
        double clip_norm = 0)
        : session({.workers = workers,
                   .batch = kBatch,
                   .reference_batch = kBatch * workers,
                   .budget_samples = budget,
                   .clip_norm = clip_norm,
                   .monitor_load = false,
                   .learning_rate = [](std::int64_t) { return 0.1; },
                   .now = [] { return SessionTime(); },
                   .predictor = {}},
                  ModeController({.modes = parse_mode_schedule("0:" + mode, setting(workers))},
                                 setting(workers), 0),
                  LeaseLedger(samples(100), {.seed = 1}, budget), {}, {}),
          scheduler(session, *this, *this, dealing, 1, 100),
          versions(static_cast<std::size_t>(workers), 0),
          pushes_(versions.size(), 0) {
        scheduler.begin();
        scheduler.deal();
    }

    static ModeSetting setting(int workers) {
        return {.live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                .batch = kBatch};
    }
    static PlanChange change(const std::string& mode, int workers) {
        return {.plan = make_plan(mode, setting(workers)), .batches = {}};
    }
    /// The worker pushes its oldest lease; false when it has none, or no parameters for it.
    bool work(int worker, bool finite = true) {
        std::optional<std::int64_t>& version = versions.at(static_cast<std::size_t>(worker));
        const LeaseOrder* const lease = session.leases().open().oldest_unpushed(worker);
        if (!scheduler.live(worker) || !version || lease == nullptr) {
            return false;
        }
        const PushTicket ticket{.id = {.worker = worker,
                                       .incarnation = session.engine().incarnation(worker),
                                       .sequence = ++pushes_[static_cast<std::size_t>(worker)]},
                                .lease = lease->lease,
                                .version = *version,
                                .samples = lease->count,
                                .finite = finite,
                                .loss_sum = 1,
                                .correct = 1,
                                .gradient_norm = norm,
                                .work = lease->work.work};
        version.reset();
        if (scheduler.arrived(worker)) {
            scheduler.push(ticket);
        }
        return true;
    }
    /// Everybody works in turns until `over`, or nobody can.
    template <class Over>
    void run_until(const Over& over) {
        for (bool any = true; any && !over();) {
            any = false;
            for (std::size_t worker = 0; worker < versions.size() && !over(); ++worker) {
                any = work(static_cast<int>(worker)) || any;
            }
        }
    }
    void lose(int worker) {
        versions.at(static_cast<std::size_t>(worker)).reset();
        scheduler.worker_lost(worker, {});
    }
    /// Leases of a worker that it has not pushed.
    [[nodiscard]] std::size_t unpushed(int worker) {
        return session.leases().open().unpushed(worker);
    }

    TrainingSession session;
    ServerScheduler scheduler;
    std::vector<std::optional<std::int64_t>> versions;  ///< of parameters that are not used
    std::vector<UpdateOrder> updates;
    std::vector<DealtLease> dealt;
    std::vector<std::uint64_t> revoked;
    int refused = 0;
    int drops = 0;
    std::function<void()> on_update;
    double norm = 1;  ///< of the next pushes

private:
    void apply(const UpdateOrder& /*update*/, const Fire& fire) override {
        for (const Fire::Release& one : fire.releases) {
            versions.at(static_cast<std::size_t>(one.worker)) = fire.version;
        }
    }
    void applied(const UpdateOrder& update, const Fire& /*fire*/) override {
        updates.push_back(update);
        if (on_update) {
            on_update();
        }
    }
    void release(const ReleaseOne& one) override {
        versions.at(static_cast<std::size_t>(one.worker)) = one.version;
    }
    void interrupt(const Interrupt& interrupt, const ReturnLease* /*lease*/) override {
        versions.at(static_cast<std::size_t>(interrupt.worker)) = interrupt.version;
    }
    void refuse(const Refuse& /*refusal*/, const PushTicket& /*ticket*/, bool /*held*/) override {
        ++refused;
    }
    void dropped(const PushTicket& /*ticket*/) override { ++drops; }
    void returned(const ReturnLease& /*lease*/) override {}
    [[nodiscard]] bool stages(int /*worker*/) const override { return false; }
    void deal(const std::vector<DealtLease>& leases) override {
        dealt.insert(dealt.end(), leases.begin(), leases.end());
    }
    void deal_validation(const ValidationSampler::Dealt& /*lease*/) override {}
    void revoke(int /*worker*/, const std::vector<std::uint64_t>& leases) override {
        revoked.insert(revoked.end(), leases.begin(), leases.end());
    }

    std::vector<std::uint64_t> pushes_;
};

using Dealing = ServerScheduler::Dealing;

class Rules : public testing::TestWithParam<Dealing> {};

INSTANTIATE_TEST_SUITE_P(, Rules, testing::Values(Dealing::kAhead, Dealing::kOnRelease),
                         [](const auto& param) {
                             return param.param == Dealing::kAhead ? "Ahead" : "OnRelease";
                         });

TEST_P(Rules, EveryModeAppliesItsBudget) {
    for (const char* mode : {"ssgd", "asgd", "static:2", "ssp:1", "ksync:2", "backup:1",
                             "localsgd:2", "hier:2:2", "kbatch-async:2", "saps:1"}) {
        SCOPED_TRACE(mode);
        Job job(mode, 4, 400, GetParam());
        job.run_until([&] { return job.session.stopping(); });
        EXPECT_EQ(job.session.counts().samples_applied, 400);
        EXPECT_EQ(job.session.counts().updates, static_cast<std::int64_t>(job.updates.size()));
        job.session.leases().open().return_all();
        EXPECT_THAT(job.scheduler.close(), IsEmpty());  // checks both accounts, too
        EXPECT_TRUE(job.scheduler.quiet());
    }
}

/// Each worker's gradient, by its own norm; deltas are made of clipped steps.
TEST_P(Rules, LongGradientsCountLess) {
    for (const bool deltas : {false, true}) {
        Job job(deltas ? "localsgd:2" : "ssgd", 2, 64, GetParam(), 2.0);
        Job plain(deltas ? "localsgd:2" : "ssgd", 2, 64, GetParam());
        for (const auto& [worker, norm] : {std::pair(0, 0.5), std::pair(1, 8.0)}) {
            for (Job* const one : {&job, &plain}) {
                one->norm = norm;
                EXPECT_TRUE(one->work(worker));
            }
        }
        ASSERT_EQ(job.updates.size(), 1U);
        for (std::size_t i = 0; i < 2; ++i) {
            const UpdateTerm& term = job.updates[0].terms[i];
            const double factor = term.push.worker == 1 && !deltas ? 0.25 : 1;
            EXPECT_EQ(term.coefficient, factor * plain.updates.at(0).terms[i].coefficient);
        }
    }
}

TEST_P(Rules, TermsOfAnUpdateAreInTheOrderOfLeases) {
    Job job("ssgd", 3, 240, GetParam());
    for (const int worker : {2, 0}) {
        EXPECT_TRUE(job.work(worker));
        EXPECT_FALSE(job.work(worker)) << "it waits for the others";
    }
    EXPECT_TRUE(job.work(1));
    ASSERT_EQ(job.updates.size(), 1U);
    const auto& terms = job.updates[0].terms;
    ASSERT_EQ(terms.size(), 3U);
    EXPECT_LT(terms[0].lease, terms[1].lease);
    EXPECT_LT(terms[1].lease, terms[2].lease);
    EXPECT_EQ(job.updates[0].correct, 3);
    EXPECT_DOUBLE_EQ(terms[0].coefficient, 1.0 / 3);
}

TEST_P(Rules, APushThatIsNotFiniteIsDroppedAndItsSamplesAreDealtAgain) {
    Job job("asgd", 2, 160, GetParam());
    EXPECT_TRUE(job.work(0, false));
    EXPECT_EQ(job.drops, 1);
    EXPECT_EQ(job.session.counts().drops.total, 1);
    EXPECT_EQ(job.session.leases().open().part_accounts().returned_non_finite, kBatch);
    job.run_until([&] { return job.session.stopping(); });
    EXPECT_EQ(job.session.counts().samples_applied, 160);
}

TEST_P(Rules, TheNewestPlanFollowsTheUpdateInWhichPlansWereInstalled) {
    Job job("ssgd", 3, 240, GetParam());
    job.on_update = [&] {
        if (job.updates.size() == 1) {
            job.scheduler.install(Job::change("asgd", 3));
            job.scheduler.install(Job::change("static:2", 3));
            EXPECT_EQ(job.session.engine().plan().name, "ssgd") << "in the middle of an update";
        }
    };
    job.run_until([&] { return job.updates.size() == 1; });
    EXPECT_EQ(job.session.engine().plan().name, "static:2");
}

TEST_P(Rules, GroupsBeginTogetherBehindAFence) {
    Job job("asgd", 4, 4000, GetParam());
    job.run_until([&] { return job.updates.size() == 6; });
    job.dealt.clear();
    job.scheduler.install(Job::change("hier:2:2", 4));
    job.run_until([&] { return job.updates.size() == 16; });
    int together = 0;
    for (const auto& [worker, order] : job.dealt) {
        if (!order.work.group.empty()) {
            ++together;
            EXPECT_THAT(order.work.group, ElementsAre(worker / 2 * 2, worker / 2 * 2 + 1));
        }
    }
    EXPECT_GE(together, 8);
    // Another plan waits until all leases of groups are pushed.
    EXPECT_TRUE(job.work(0));
    job.scheduler.install(Job::change("asgd", 4));
    EXPECT_EQ(job.session.engine().plan().name, "hier:2:2");
    job.run_until([&] { return job.session.engine().plan().name == "asgd"; });
    EXPECT_EQ(job.session.engine().plan().name, "asgd");
}

TEST(ServerScheduler, LosesAndRegainsWorkers) {
    Job job("ssgd", 3, 480, Dealing::kAhead);
    job.run_until([&] { return job.updates.size() == 2; });
    EXPECT_TRUE(job.work(0));
    EXPECT_TRUE(job.work(1));
    job.lose(2);
    EXPECT_EQ(job.updates.size(), 3U) << "nobody waits for the lost worker";
    EXPECT_EQ(job.unpushed(2), 0U);
    job.run_until([&] { return job.updates.size() == 6; });
    job.scheduler.worker_joined(2);
    EXPECT_GT(job.unpushed(2), 0U);
    job.run_until([&] { return job.session.stopping(); });
    EXPECT_EQ(job.session.counts().samples_applied, 480);
    EXPECT_EQ(job.updates.back().terms.size(), 3U);
}

TEST(ServerScheduler, LosesWorkersAndChangesPlansAtAnyTime) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const std::vector<std::string> modes{"ssgd",   "asgd",       "static:2", "ssp:1",
                                             "saps:1", "localsgd:2", "hier:2:2", "ksync:2"};
        Job job("ssgd", 4, 1600, Dealing::kAhead);
        for (int step = 0; step < 100'000 && !job.session.stopping(); ++step) {
            const int worker = static_cast<int>(random() % 4);
            const unsigned what = random() % 64;
            if (what == 0) {
                job.scheduler.install(Job::change(modes[random() % modes.size()], 4));
            } else if (what == 1 && worker != 0 && job.scheduler.live(worker)) {
                job.lose(worker);
            } else if (what < 6 && !job.scheduler.live(worker)) {
                job.scheduler.worker_joined(worker);
            } else {
                (void)job.work(worker, random() % 50 != 0);
            }
        }
        EXPECT_EQ(job.session.counts().samples_applied, 1600);
        job.session.leases().open().return_all();
        (void)job.scheduler.close();
    }
}

TEST(ServerScheduler, AWorkerThatLagsTooOftenGetsAShorterLease) {
    Job job("saps:1", 4, 4000, Dealing::kAhead);
    for (int round = 0; round < 12 && job.revoked.empty(); ++round) {
        for (int turn = 0; turn < 8; ++turn) {
            for (const int worker : {0, 1, 2}) {
                (void)job.work(worker);
            }
        }
    }
    ASSERT_FALSE(job.revoked.empty()) << "worker 3 never pushed";
    EXPECT_EQ(job.session.leases().open().oldest_unpushed(3)->count, short_lease_of(kBatch));
    EXPECT_TRUE(job.work(3));
    EXPECT_EQ(job.updates.back().samples, short_lease_of(kBatch));
}

}  // namespace
}  // namespace cohort
