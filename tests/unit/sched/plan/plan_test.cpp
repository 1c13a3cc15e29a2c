#include "cohort/sched/plan.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

SyncPlan plan_of(std::vector<CohortSpec> cohorts) {
    SyncPlan plan;
    plan.name = "test";
    plan.cohorts = std::move(cohorts);
    return plan;
}

SyncPlan good() {
    return plan_of({{.members = {0, 1}, .riders = {2}, .quorum = 2}});
}

auto refused(const SyncPlan& plan, const char* words) {
    EXPECT_THAT([&] { check_plan(plan, 3); }, ThrowsMessage<UsageError>(HasSubstr(words)));
}

TEST(CheckPlan, EveryLiveWorkerHasOnePlace) {
    EXPECT_NO_THROW(check_plan(good(), 3));
    refused(plan_of({}), "without cohorts");
    refused(plan_of({{.members = {0, 1}, .riders = {}}}), "worker 2 in none");
    refused(plan_of({{.members = {0, 1}, .riders = {1, 2}}}), "worker 1 twice");
    refused(plan_of({{.members = {0, 1}, .riders = {}}, {.members = {1, 2}, .riders = {}}}),
            "worker 1 twice");
    refused(plan_of({{.members = {0, 1, 2, 3}, .riders = {}}}), "0..2, got 3");
    refused(plan_of({{.members = {}, .riders = {0, 1, 2}}}), "without members");
}

TEST(CheckPlan, WhoIsNotLiveMayBeLeftOut) {
    const SyncPlan plan = plan_of({{.members = {0, 2}, .riders = {}}});
    EXPECT_NO_THROW(check_plan(plan, 3, {true, false, true}));
    EXPECT_THROW(check_plan(plan, 3, {true, true, true}), UsageError);
}

TEST(CheckPlan, AQuorumCanBeReached) {
    SyncPlan plan = good();
    plan.cohorts[0].quorum = 0;
    refused(plan, "quorum out of range");
    plan.cohorts[0].quorum = 3;
    refused(plan, "at most 2");
    plan.cohorts[0].count = CohortSpec::Count::kPushes;
    EXPECT_NO_THROW(check_plan(plan, 3));
}

TEST(CheckPlan, NumbersAreInRange) {
    const auto with = [](auto change) {
        SyncPlan plan = good();
        change(plan);
        return plan;
    };
    refused(with([](SyncPlan& p) { p.window = 0; }), "window");
    refused(with([](SyncPlan& p) { p.window = 2; }), "release on arrival");
    refused(with([](SyncPlan& p) { p.late_rounds = -1; }), "late");
    refused(with([](SyncPlan& p) { p.lag_rule = {.bound = -1}; }), "lag rule");
    refused(
        with([](SyncPlan& p) { p.lag_rule = {.bound = std::numeric_limits<double>::quiet_NaN()}; }),
        "lag rule");
    refused(with([](SyncPlan& p) { p.clock_bound = -1; }), "clock bound");
    refused(with([](SyncPlan& p) { p.delay_compensation = -1; }), "delay compensation");
    refused(with([](SyncPlan& p) { p.local_steps = 0; }), "local steps");
    refused(with([](SyncPlan& p) { p.group = 0; }), "group");
    refused(with([](SyncPlan& p) { p.lr_unit = SyncPlan::LrUnit::kPublished; }), "published");
}

}  // namespace
}  // namespace cohort
