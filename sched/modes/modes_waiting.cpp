#include <algorithm>

#include "sched/modes/mode_table.hpp"

// Modes in which an update waits for several pushes.
namespace cohort {
namespace {

/// A worker that is ahead computes at most one more batch before its pushes are applied.
constexpr int kArrivalWindow = 2;
constexpr double kLocalSteps = 8;

using Most = ModeParameter::Most;

SyncPlan ssgd(const ModeRequest& request) {
    return one_cohort(request, request.workers());
}

SyncPlan static_quorum(const ModeRequest& request) {
    return one_cohort(request, request.of_workers(0));
}

/// The first `quorum` pushes on the newest parameters make an update; later pushes are dropped.
SyncPlan fresh_quorum(const ModeRequest& request, int quorum) {
    SyncPlan plan = one_cohort(request, quorum);
    plan.cohorts.front().fresh_only = true;
    plan.late = SyncPlan::Late::kDrop;
    return plan;
}

SyncPlan ksync(const ModeRequest& request) {
    SyncPlan plan = fresh_quorum(request, request.of_workers(0));
    plan.others = SyncPlan::Others::kInterrupt;
    plan.published_unit = request.samples_of(request.whole(0));
    return plan;
}

SyncPlan backup(const ModeRequest& request) {
    SyncPlan plan = fresh_quorum(request, std::max(1, request.workers() - request.whole(0)));
    plan.published_unit =
        reference_batch_of(request.setting) - request.samples_of(request.whole(0));
    return plan;
}

/// X pushes on the newest parameters make an update; a later push is an update of its own at once,
/// and its worker continues without waiting.
SyncPlan quorum(const ModeRequest& request) {
    SyncPlan plan = one_cohort(request, request.of_workers(0));
    plan.late = SyncPlan::Late::kAlone;
    return plan;
}

SyncPlan lgc(const ModeRequest& request) {
    SyncPlan plan = one_cohort(request, std::max(1, request.workers() - request.whole(0)));
    plan.cohorts.front().fresh_only = true;
    plan.late_rounds = 1;
    return plan;
}

SyncPlan push_count(const ModeRequest& request, int pushes) {
    SyncPlan plan = one_cohort(request, pushes);
    plan.cohorts.front().count = CohortSpec::Count::kPushes;
    plan.release = SyncPlan::Release::kOnArrival;
    plan.window = kArrivalWindow;
    plan.published_unit = request.samples_of(pushes);
    return plan;
}

SyncPlan kbatch_async(const ModeRequest& request) {
    return push_count(request, request.whole(0));
}

SyncPlan kbatch_sync(const ModeRequest& request) {
    SyncPlan plan = push_count(request, request.whole(0));
    plan.cohorts.front().fresh_only = true;
    plan.late = SyncPlan::Late::kDrop;
    plan.others = SyncPlan::Others::kInterrupt;
    return plan;
}

double inverse_lag(const FiredPush& push, const FiringSet& /*set*/) {
    return 1 / static_cast<double>(std::max<std::int64_t>(push.lag_updates, 1));
}

SyncPlan softsync(const ModeRequest& request) {
    SyncPlan plan = push_count(request, std::max(1, request.workers() / request.whole(0)));
    plan.weight = inverse_lag;
    return plan;
}

SyncPlan hier(const ModeRequest& request, int group, int steps) {
    SyncPlan plan = ssgd(request);
    plan.work = Work::kDelta;
    plan.local_steps = steps;
    plan.group = group;
    return plan;
}

SyncPlan localsgd(const ModeRequest& request) {
    return hier(request, 1, request.whole(0));
}

SyncPlan hierarchical(const ModeRequest& request) {
    return hier(request, request.of_workers(0), request.whole(1));
}

ModeParameter pushes_of(std::string_view name) {
    return {.name = name, .least = 1, .most = Most::kWorkers};
}

ModeParameter left_out(std::string_view name) {
    return {.name = name, .least = 0, .most = Most::kBelowWorkers};
}

ModeParameter local_steps() {
    return {.name = "H", .least = 1, .fallback = kLocalSteps};
}

}  // namespace

std::vector<ModeEntry> waiting_modes() {
    return {
        {.name = "ssgd", .rings = true, .parameters = {}, .plan = ssgd},
        {.name = "static", .parameters = {pushes_of("X")}, .plan = static_quorum},
        {.name = "quorum", .parameters = {pushes_of("X")}, .plan = quorum},
        {.name = "ksync", .parameters = {pushes_of("K")}, .plan = ksync},
        {.name = "backup", .parameters = {left_out("C")}, .plan = backup},
        {.name = "lgc", .parameters = {left_out("S")}, .plan = lgc},
        {.name = "kbatch-sync", .parameters = {pushes_of("K")}, .plan = kbatch_sync},
        {.name = "kbatch-async", .parameters = {pushes_of("K")}, .plan = kbatch_async},
        {.name = "softsync", .parameters = {pushes_of("N")}, .plan = softsync},
        {.name = "localsgd", .rings = true, .parameters = {local_steps()}, .plan = localsgd},
        {.name = "hier",
         .rings = true,
         .parameters = {pushes_of("G"), local_steps()},
         .plan = hierarchical},
    };
}

}  // namespace cohort
