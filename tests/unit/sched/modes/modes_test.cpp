// What --mode names: names and parameters, and the plans that they stand for.
#include "cohort/sched/modes.hpp"

#include <gmock/gmock.h>

#include "cohort/core/error.hpp"
#include "cohort/sched/mode_options.hpp"
#include "cohort/sched/policy.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

using test::plan_for;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

constexpr Architecture kServers = Architecture::kServers;
constexpr Architecture kRing = Architecture::kRing;

/// A spelling of every mode, parameters given and left out.
const std::vector<std::string> kServerModes = {"ssgd",
                                               "static:1",
                                               "ksync:1",
                                               "backup:0",
                                               "quorum:1",
                                               "lgc:0",
                                               "softsync:1",
                                               "localsgd",
                                               "kbatch-sync:1",
                                               "kbatch-async:1",
                                               "localsgd:4",
                                               "hier:1",
                                               "hier:1:8",
                                               "asgd",
                                               "ssp",
                                               "ssp:0",
                                               "dynsgd",
                                               "adadelay",
                                               "adadelay:2,0.5",
                                               "dcasgd",
                                               "dcasgd:1e-2",
                                               "saps",
                                               "saps:1.5",
                                               "saps:2:drop",
                                               "saps:2:discount",
                                               "saps:2:refresh",
                                               "saps:auto",
                                               "lb-bsp:32",
                                               "zeno++",
                                               "zeno++:0.2",
                                               "zeno++:0.2:4",
                                               "dynamic",
                                               "cutoff",
                                               "lb-bsp",
                                               "flexrr",
                                               "flexrr:2",
                                               "sync-switch:0.5",
                                               "ssgd-or-asgd",
                                               "star-h",
                                               "star-h-exact",
                                               "star-h-exact:1.5",
                                               "star-ml",
                                               "adaptive"};
const std::vector<std::string> kRingModes = {"ssgd",       "ring",    "ring:1",   "localsgd",
                                             "localsgd:4", "hier:1",  "hier:1:2", "lb-bsp",
                                             "star-h",     "star-ml", "adaptive"};

const std::vector<std::string>& modes_of(Architecture architecture) {
    return architecture == kRing ? kRingModes : kServerModes;
}

std::string name_of(std::string_view spelling) {
    return std::string(spelling.substr(0, spelling.find_first_of(":[")));
}

TEST(Modes, SsgdIsOneCohortThatWaitsForAll) {
    const SyncPlan plan = plan_for("ssgd", kServers, 3);
    ASSERT_EQ(plan.cohorts.size(), 1u);
    EXPECT_THAT(plan.cohorts[0].members, ElementsAre(0, 1, 2));
    EXPECT_EQ(plan.cohorts[0].quorum, 3);
    EXPECT_FALSE(plan.look_ahead);
    EXPECT_TRUE(is_synchronous(plan));
}

TEST(Modes, AsgdIsACohortPerWorker) {
    const SyncPlan plan = plan_for("asgd", kServers, 2);
    ASSERT_EQ(plan.cohorts.size(), 2u);
    EXPECT_THAT(plan.cohorts[1].members, ElementsAre(1));
    EXPECT_TRUE(plan.look_ahead);
    EXPECT_FALSE(plan_for("asgd", kServers, 2, StaleMomentum::kKeep).look_ahead);
    EXPECT_FALSE(is_synchronous(plan));
}

TEST(Modes, StaticWaitsForX) {
    const SyncPlan plan = plan_for("static:2", kServers, 4);
    EXPECT_EQ(plan.name, "static:2");
    EXPECT_EQ(plan.cohorts.at(0).quorum, 2);
    EXPECT_TRUE(plan.look_ahead);
    EXPECT_FALSE(is_synchronous(plan));
    EXPECT_TRUE(is_synchronous(plan_for("static:4", kServers, 4)));
}

TEST(Modes, KsyncUsesFreshPushesAndInterruptsTheOthers) {
    const SyncPlan plan = plan_for("ksync:3", kServers, 4);
    EXPECT_EQ(plan.cohorts.at(0).quorum, 3);
    EXPECT_TRUE(plan.cohorts[0].fresh_only);
    EXPECT_EQ(plan.late, SyncPlan::Late::kDrop);
    EXPECT_EQ(plan.others, SyncPlan::Others::kInterrupt);
    EXPECT_FALSE(plan.look_ahead) << "what is applied never lags";
}

TEST(Modes, BackupLeavesSomeOut) {
    const SyncPlan plan = plan_for("backup:1", kServers, 4);
    EXPECT_EQ(plan.cohorts.at(0).quorum, 3);
    EXPECT_EQ(plan.late, SyncPlan::Late::kDrop);
    EXPECT_EQ(plan.others, SyncPlan::Others::kContinue);
}

TEST(Modes, QuorumAppliesLatePushesAlone) {
    const SyncPlan plan = plan_for("quorum:3", kServers, 4);
    EXPECT_EQ(plan.cohorts.at(0).quorum, 3);
    EXPECT_EQ(plan.late, SyncPlan::Late::kAlone);
    EXPECT_TRUE(plan.look_ahead);
    EXPECT_TRUE(is_synchronous(plan_for("quorum:4", kServers, 4)));
}

TEST(Modes, LgcMergesWhatIsLateByOneRound) {
    const SyncPlan plan = plan_for("lgc:1", kServers, 4);
    EXPECT_EQ(plan.cohorts.at(0).quorum, 3);
    EXPECT_TRUE(plan.cohorts[0].fresh_only);
    EXPECT_EQ(plan.late, SyncPlan::Late::kMerge);
    EXPECT_EQ(plan.late_rounds, 1);
    EXPECT_TRUE(plan.look_ahead);
}

TEST(Modes, KbatchCountsPushesOnArrival) {
    for (const char* mode : {"kbatch-async:3", "kbatch-sync:3"}) {
        const SyncPlan plan = plan_for(mode, kServers, 4);
        EXPECT_EQ(plan.cohorts.at(0).quorum, 3);
        EXPECT_EQ(plan.cohorts[0].count, CohortSpec::Count::kPushes);
        EXPECT_EQ(plan.release, SyncPlan::Release::kOnArrival);
        EXPECT_EQ(plan.window, 2);
    }
    EXPECT_EQ(plan_for("kbatch-sync:3", kServers, 4).others, SyncPlan::Others::kInterrupt);
    EXPECT_EQ(plan_for("kbatch-async:3", kServers, 4).others, SyncPlan::Others::kContinue);
}

TEST(Modes, SoftsyncIsKbatchAsyncOfWorkersOverN) {
    for (const auto& [n, c] : std::vector<std::pair<int, int>>{{1, 7}, {2, 3}, {3, 2}, {7, 1}}) {
        const SyncPlan plan = plan_for("softsync:" + std::to_string(n), kServers, 7);
        EXPECT_EQ(plan.cohorts.at(0).quorum, c) << n;
        EXPECT_EQ(plan.published_unit, c) << n;
    }
}

TEST(Modes, LocalAndHierarchicalStepsPushDeltas) {
    const SyncPlan local = plan_for("localsgd:4", kRing, 6);
    EXPECT_EQ(local.work, Work::kDelta);
    EXPECT_EQ(local.local_steps, 4);
    EXPECT_EQ(local.group, 1);
    EXPECT_TRUE(is_synchronous(local));
    const SyncPlan hier = plan_for("hier:3:5", kServers, 6);
    EXPECT_EQ(hier.local_steps, 5);
    EXPECT_EQ(hier.group, 3);
    EXPECT_FALSE(hier.look_ahead);
}

TEST(Modes, DefaultsOfParameters) {
    EXPECT_EQ(plan_for("saps", kServers, 2).lag_rule->bound, 2);
    EXPECT_EQ(plan_for("saps", kServers, 2).lag_rule->action, SyncPlan::LagAction::kRefresh);
    EXPECT_EQ(plan_for("saps:1:drop", kServers, 2).lag_rule->action, SyncPlan::LagAction::kDrop);
    EXPECT_EQ(plan_for("saps:1:discount", kServers, 2).lag_rule->action,
              SyncPlan::LagAction::kDiscount);
    EXPECT_EQ(plan_for("ssp", kServers, 2).clock_bound, 3);
    EXPECT_EQ(plan_for("dcasgd", kServers, 2).delay_compensation, 0.04);
    EXPECT_EQ(plan_for("zeno++", kServers, 2).validate_every, 10);
    EXPECT_EQ(plan_for("zeno++:0.1:3", kServers, 2).validate_every, 3);
    EXPECT_EQ(plan_for("localsgd", kServers, 2).local_steps, 8);
}

TEST(Modes, OnlyTheLiveHaveAPlace) {
    for (const Architecture architecture : {kServers, kRing}) {
        for (const std::string& mode : modes_of(architecture)) {
            const std::vector<bool> live = {false, true, true, false, true};
            const SyncPlan plan =
                make_plan(mode, {.architecture = architecture, .live = live, .own_seconds = {}});
            EXPECT_NO_THROW(check_plan(plan, 5, live)) << mode;
            for (const CohortSpec& cohort : plan.cohorts) {
                for (const int member : cohort.members) {
                    EXPECT_TRUE(live[static_cast<std::size_t>(member)]) << mode;
                }
            }
        }
    }
}

TEST(Modes, AQuorumShrinksWithThoseWhoAreLeft) {
    const ModeSetting setting{.live = {true, false, true, false}, .own_seconds = {}};
    EXPECT_EQ(make_plan("static:3", setting).cohorts.at(0).quorum, 2);
    EXPECT_EQ(make_plan("ksync:4", setting).cohorts.at(0).quorum, 2);
    EXPECT_EQ(make_plan("backup:1", setting).cohorts.at(0).quorum, 1);
    EXPECT_EQ(make_plan("backup:3", setting).cohorts.at(0).quorum, 1);
    EXPECT_EQ(make_plan("hier:4:2", setting).group, 2);
    EXPECT_EQ(make_plan("softsync:1", setting).cohorts.at(0).quorum, 2);
}

/// A run of six workers goes on with three: its mode means what it means after as many were lost.
TEST(Modes, ARunThatGoesOnMayHaveFewerWorkers) {
    ModeSetting lost{.live = {true, true, true, false, false, false},
                     .batch = 32,
                     .workers_at_start = 6,
                     .own_seconds = {}};
    ModeSetting fewer = lost;
    fewer.live = {true, true, true};
    for (const char* mode : {"static:6", "quorum:5", "ksync:5", "backup:5", "lgc:4",
                             "kbatch-sync:6", "kbatch-async:6", "softsync:6", "hier:4:2"}) {
        EXPECT_THROW((void)make_plan(mode, fewer), UsageError) << mode;
        fewer.continued = true;
        const SyncPlan expected = make_plan(mode, lost);
        const SyncPlan plan = make_plan(mode, fewer);
        EXPECT_EQ(plan.cohorts.at(0).members, expected.cohorts.at(0).members) << mode;
        EXPECT_EQ(plan.cohorts.at(0).quorum, expected.cohorts.at(0).quorum) << mode;
        EXPECT_EQ(plan.published_unit, expected.published_unit) << mode;
        EXPECT_EQ(plan.group, expected.group) << mode;
        fewer.continued = false;
    }
    fewer.continued = true;
    EXPECT_THROW((void)make_plan("static:0", fewer), UsageError);
    fewer.architecture = Architecture::kRing;
    EXPECT_EQ(make_plan("ring:6", fewer).cohorts.at(0).quorum, 3);
}

TEST(Modes, PublishedUnitsAreThoseOfTheStart) {
    ModeSetting setting{.live = {true, true, true, true},
                        .batch = 32,
                        .lr_rule = SyncPlan::LrUnit::kPublished,
                        .own_seconds = {}};
    const auto unit = [&](const char* mode) { return make_plan(mode, setting).published_unit; };
    for (const bool lost : {false, true}) {
        setting.live.back() = !lost;
        setting.workers_at_start = 4;
        for (const char* mode :
             {"ssgd", "lgc:1", "static:2", "quorum:2", "dynamic", "localsgd:2", "hier:2:2"}) {
            EXPECT_EQ(unit(mode), 128) << mode;
        }
        for (const char* mode : {"ksync:3", "kbatch-sync:3", "kbatch-async:3", "backup:1"}) {
            EXPECT_EQ(unit(mode), 96) << mode;
        }
        for (const char* mode :
             {"asgd", "ssp", "dynsgd", "adadelay", "dcasgd", "saps", "zeno++", "softsync:3"}) {
            EXPECT_EQ(unit(mode), 32) << mode;
        }
    }
    EXPECT_EQ(make_plan("asgd", setting).lr_unit, SyncPlan::LrUnit::kPublished);
}

TEST(Modes, DynamicGroupsWhoIsSimilar) {
    ModeSetting setting{.live = std::vector<bool>(6, true), .own_seconds = {}};
    EXPECT_EQ(make_plan("dynamic", setting).cohorts.size(), 1u) << "times are not known";
    EXPECT_TRUE(is_synchronous(make_plan("dynamic", setting)));
    setting.own_seconds = {1.0, 4.1, 1.1, 1.2, 4.0, 2.0};
    const SyncPlan plan = make_plan("dynamic", setting);
    ASSERT_EQ(plan.cohorts.size(), 3u);
    EXPECT_THAT(plan.cohorts[0].members, ElementsAre(0, 2, 3));
    EXPECT_THAT(plan.cohorts[1].members, ElementsAre(5));
    EXPECT_THAT(plan.cohorts[2].members, ElementsAre(1, 4));
    EXPECT_EQ(plan.cohorts[0].quorum, 3);
    EXPECT_EQ(plan.cohorts[2].quorum, 2);
    setting.own_seconds[5] = 0;  // counts as the median, 1.2
    EXPECT_THAT(make_plan("dynamic", setting).cohorts[0].members, ElementsAre(0, 2, 3, 5));
}

TEST(Modes, DynamicCutsALongChainAtItsWidestGap) {
    const ModeSetting setting{.live = std::vector<bool>(5, true),
                              .own_seconds = {1.0, 1.2, 1.5, 1.8, 2.1}};
    const SyncPlan plan = make_plan("dynamic", setting);
    ASSERT_EQ(plan.cohorts.size(), 2u);
    EXPECT_THAT(plan.cohorts[0].members, ElementsAre(0, 1));
    EXPECT_THAT(plan.cohorts[1].members, ElementsAre(2, 3, 4));
}

TEST(Modes, TheFastestFormTheRing) {
    ModeSetting setting{
        .architecture = kRing, .live = std::vector<bool>(4, true), .own_seconds = {}};
    EXPECT_THAT(make_plan("ring:2", setting).cohorts.at(0).members, ElementsAre(0, 1));
    setting.own_seconds = {3, 1, 2, 1};
    const SyncPlan plan = make_plan("ring:2", setting);
    EXPECT_THAT(plan.cohorts.at(0).members, ElementsAre(1, 3));
    EXPECT_THAT(plan.cohorts[0].riders, ElementsAre(0, 2));
    EXPECT_EQ(plan.cohorts[0].quorum, 2);
    EXPECT_THAT(make_plan("ring", setting).cohorts.at(0).riders, IsEmpty());
}

TEST(Modes, CutoffIsTheKThatDoesMostPerSecond) {
    ModeSetting setting{.live = std::vector<bool>(4, true), .own_seconds = {}};
    EXPECT_EQ(make_plan("cutoff", setting).name, "ksync:4");
    setting.own_seconds = {1.0, 1.1, 1.2, 1.5};  // 1, 1.8, 2.5, 2.7
    EXPECT_EQ(make_plan("cutoff", setting).name, "ksync:4");
    setting.own_seconds = {1.0, 1.1, 1.2, 1.7};  // 1, 1.8, 2.5, 2.4
    EXPECT_EQ(make_plan("cutoff", setting).name, "ksync:3");
}

TEST(Modes, OneWorkerIsAlwaysSynchronous) {
    for (const char* mode :
         {"ssgd", "asgd", "static:1", "quorum:1", "ksync:1", "backup:0", "lgc:0", "ssp:0", "saps",
          "dynamic", "localsgd:2", "hier:1:2", "dcasgd:1", "cutoff"}) {
        EXPECT_TRUE(is_synchronous(plan_for(mode, kServers, 1))) << mode;
        EXPECT_FALSE(plan_for(mode, kServers, 1).look_ahead) << mode;
    }
}

TEST(Modes, EveryNameMakesAPlanThatFits) {
    for (const Architecture architecture : {kServers, kRing}) {
        std::vector<std::string> tried;
        for (const std::string& mode : modes_of(architecture)) {
            tried.push_back(name_of(mode));
            for (const int workers : {1, 2, 7}) {
                EXPECT_NO_THROW(check_plan(plan_for(mode, architecture, workers), workers)) << mode;
            }
        }
        for (const std::string& name : mode_names(architecture)) {
            EXPECT_THAT(tried, testing::Contains(name_of(name))) << "no test of " << name;
        }
    }
    EXPECT_EQ(default_mode(kServers), "ssgd");
    EXPECT_EQ(default_mode(kRing), "ring");
}

TEST(Modes, NamesSayWhatMayBeLeftOut) {
    const std::vector<std::string> names = mode_names(kServers);
    EXPECT_THAT(names, testing::IsSupersetOf({"static:X", "saps[:D:ACTION]", "adadelay[:L,C]",
                                              "hier:G[:H]", "sync-switch:SHARE"}));
    EXPECT_EQ(names.front(), default_mode(kServers));
    EXPECT_EQ(name_of(mode_names(kRing).front()), default_mode(kRing));
}

TEST(Modes, AScaleIsSaidBehindTheName) {
    for (const char* mode : {"ssgd@0.5", "quorum:3@0.25", "localsgd:2@0.5", "adadelay:1,0.5@0.5",
                             "ssp@5e-1", "dynamic@0.5"}) {
        const SyncPlan plan = plan_for(mode, kServers, 4);
        SyncPlan plain = plan_for(std::string(mode, std::string_view(mode).find('@')), kServers, 4);
        EXPECT_EQ(plain.lr_scale, 1) << mode;
        EXPECT_LE(plan.lr_scale, 0.5) << mode;
        EXPECT_EQ(plan.name, plain.name + (plan.lr_scale == 0.5 ? "@0.5" : "@0.25"));
        EXPECT_EQ(plan.cohorts.size(), plain.cohorts.size()) << mode;
    }
    EXPECT_EQ(plan_for("ring:3@0.5", kRing, 4).lr_scale, 0.5);
    EXPECT_EQ(plan_for("asgd@1", kServers, 4).name, "asgd");
    EXPECT_EQ(plan_for("flexrr:2@0.5", kServers, 4).name, "ssp:2@0.5") << "made of another mode";
}

/// All plans that a mode changes to have it.
TEST(Modes, AScaleStaysWithThePolicy) {
    ModeSetting setting{.live = {true, true, true, true}, .own_seconds = {}};
    for (const SyncPlan& plan :
         plans_of_mode(parse_mode("sync-switch:0.5@0.25", setting), setting)) {
        EXPECT_EQ(plan.lr_scale, 0.25) << plan.name;
    }
    const auto cutoff = make_policy("cutoff@0.5", setting);
    EXPECT_EQ(cutoff->start().plan->name, "ksync:4@0.5");
    Telemetry slow{.workers = std::vector<WorkerReport>(4, {.own_s = 1})};
    slow.workers[3].own_s = 9;
    EXPECT_EQ(cutoff->decide(slow).plan->name, "ksync:3@0.5");
}

TEST(Modes, AScaleIsAboveZeroAndAtMostOneAndChoosersHaveNone) {
    for (const char* mode : {"asgd@", "asgd@0", "asgd@2", "asgd@-0.5", "asgd@nan", "asgd@0.5x",
                             "asgd@0.5@0.5", "static@0.5:3", "@0.5"}) {
        EXPECT_THROW((void)plan_for(mode, kServers, 4), UsageError) << mode;
    }
    EXPECT_THAT([] { (void)plan_for("quorum:3@1.5", kServers, 4); },
                ThrowsMessage<UsageError>(HasSubstr("quorum:X@SCALE, SCALE above 0, at most 1")));
    for (const char* mode : {"adaptive@0.5", "star-h@0.5", "ssgd-or-asgd@0.5"}) {
        EXPECT_THAT([mode] { (void)plan_for(mode, kServers, 4); },
                    ThrowsMessage<UsageError>(HasSubstr("chooses")));
    }
}

TEST(Modes, ErrorsSayWhatIsPossible) {
    const auto make = [](const std::string& mode, Architecture architecture) {
        return [=] { (void)plan_for(mode, architecture, 4); };
    };
    EXPECT_THAT(make("sync", kServers),
                ThrowsMessage<UsageError>(testing::AllOf(HasSubstr("ssgd, static:X, quorum:X"),
                                                         HasSubstr("got 'sync'"))));
    for (const char* mode : {"static:0", "static:5", "static:", "static:2x", "static:-1", "static",
                             "static:1:1", "static: 1", "static:1.5", "static:99999999999"}) {
        EXPECT_THAT(make(mode, kServers),
                    ThrowsMessage<UsageError>(HasSubstr("static:X with X from 1 to the 4 workers")))
            << mode;
    }
    for (const char* mode :
         {"ssgd:1",         "asgd:",       "backup:4",        "adadelay:1:0", "adadelay:0,1",
          "dcasgd:nan",     "dcasgd:inf",  "dcasgd:-1",       "saps:2:wait",  "saps:-1",
          "saps:automatic", "lb-bsp:16",   "hier:5:2",        "hier:2:0",     "zeno++:0.1:0",
          "zeno++:1.5",     "sync-switch", "sync-switch:1.5", "localsgd:0",   "ssp:x",
          "kbatch-sync:5"}) {
        EXPECT_THROW(make(mode, kServers)(), UsageError) << mode;
        EXPECT_THROW((void)make_policy(mode, {.live = {true, true, true, true}, .own_seconds = {}}),
                     UsageError)
            << mode;
    }
    EXPECT_THAT(make("saps:2:wait", kServers),
                ThrowsMessage<UsageError>(HasSubstr("ACTION one of refresh, drop, discount")));
    EXPECT_THAT(make("asgd", kRing), ThrowsMessage<UsageError>(HasSubstr("--arch servers")));
    EXPECT_THAT(make("ring", kServers), ThrowsMessage<UsageError>(HasSubstr("ssgd")));
    EXPECT_THROW((void)parse_word<Architecture>("rings", "--arch"), UsageError);
    EXPECT_EQ(parse_word<Architecture>("servers", "--arch"), kServers);
    EXPECT_EQ(parse_word<StaleMomentum>("keep", "--stale-momentum"), StaleMomentum::kKeep);
    EXPECT_EQ(word_of(SyncPlan::LrUnit::kAdaScale), "adascale");
}

TEST(ModeSchedule, NamesModesBySamples) {
    const ModeSetting setting{.live = std::vector<bool>(8, true)};
    const auto schedule = parse_mode_schedule(
        "0:ssgd,20000:static:6,40000:adadelay:1,0.5,50000:hier:2:8@0.5", setting);
    ASSERT_THAT(schedule, SizeIs(4));
    EXPECT_EQ(schedule[0].mode.text, "ssgd");
    EXPECT_EQ(schedule[1].samples, 20000);
    EXPECT_EQ(schedule[1].mode.text, "static:6");
    EXPECT_EQ(schedule[2].mode.text, "adadelay:1,0.5");
    EXPECT_EQ(schedule[3].samples, 50000);
    EXPECT_EQ(schedule[3].mode.text, "hier:2:8@0.5");
    for (const char* wrong : {"", "ssgd", "5:ssgd", "0:ssgd,0:asgd", "0:ssgd,9:asgd,8:ssgd",
                              "0:", "0:ssgd,asgd:3", "0:ssgd,,", ",0:ssgd", "x:ssgd", "-1:ssgd"}) {
        EXPECT_THROW((void)parse_mode_schedule(wrong, setting), UsageError) << wrong;
    }
}

}  // namespace
}  // namespace cohort
