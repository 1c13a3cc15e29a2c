#include "cohort/sched/plan.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/sched/job_limits.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_plan(const SyncPlan& plan, const std::string& what,
                            const std::string& expected, const std::string& got) {
    fail<UsageError>({.where = fmt::format("plan '{}'", plan.name),
                      .what = what,
                      .expected = expected,
                      .got = got});
}

/// Checks that a number is finite and not below `least`.
void check_least(const SyncPlan& plan, std::string_view name, double value, double least) {
    if (!(std::isfinite(value) && value >= least)) {
        fail_plan(plan, fmt::format("{} out of range", name), fmt::format("at least {}", least),
                  fmt::format("{}", value));
    }
}

void place(const SyncPlan& plan, int worker, std::vector<bool>& placed) {
    const int workers = static_cast<int>(placed.size());
    if (worker < 0 || worker >= workers) {
        fail_plan(plan, "a cohort names a worker that does not exist",
                  fmt::format("0..{}", workers - 1), fmt::format("{}", worker));
    }
    if (placed[static_cast<std::size_t>(worker)]) {
        fail_plan(plan, "a worker has two places", "one cohort each",
                  fmt::format("worker {} twice", worker));
    }
    placed[static_cast<std::size_t>(worker)] = true;
}

void check_cohort(const SyncPlan& plan, const CohortSpec& cohort, std::vector<bool>& placed) {
    if (cohort.members.empty()) {
        fail_plan(plan, "a cohort without members", "at least one", "none");
    }
    check_least(plan, "quorum", cohort.quorum, 1);
    const auto members = static_cast<std::int64_t>(cohort.members.size());
    if (cohort.count == CohortSpec::Count::kWorkers && cohort.quorum > members) {
        fail_plan(plan, "a quorum that its cohort cannot reach",
                  fmt::format("at most {} of {} members", members, members),
                  fmt::format("{}", cohort.quorum));
    }
    for (const int worker : cohort.members) {
        place(plan, worker, placed);
    }
    for (const int worker : cohort.riders) {
        place(plan, worker, placed);
    }
}

void check_ranges(const SyncPlan& plan) {
    check_least(plan, "window", plan.window, 1);
    if (plan.release == SyncPlan::Release::kOnFire && plan.window != 1) {
        fail_plan(plan, "a window without release on arrival", "1", fmt::format("{}", plan.window));
    }
    if (plan.late_rounds) {
        check_least(plan, "rounds that a push may be late", *plan.late_rounds, 0);
    }
    if (plan.lag_rule) {
        check_least(plan, "bound of the lag rule", plan.lag_rule->bound, 0);
    }
    if (plan.clock_bound) {
        check_least(plan, "clock bound", static_cast<double>(*plan.clock_bound), 0);
    }
    check_least(plan, "lambda of the delay compensation", plan.delay_compensation, 0);
    check_least(plan, "local steps", plan.local_steps, 1);
    check_least(plan, "group", plan.group, 1);
    require_within(plan.lr_scale, kLrScaleLimits, "scale of the learning rate");
    if (plan.lr_unit == SyncPlan::LrUnit::kPublished) {
        check_least(plan, "unit of the published step", static_cast<double>(plan.published_unit),
                    1);
    }
}

}  // namespace

void check_plan(const SyncPlan& plan, int workers, const std::vector<bool>& live) {
    check_least(plan, "number of workers", workers, 1);
    const auto count = static_cast<std::size_t>(workers);
    check_invariant(live.empty() || live.size() == count, "one entry per worker in `live`");
    if (plan.cohorts.empty()) {
        fail_plan(plan, "a plan without cohorts", "at least one", "none");
    }
    std::vector<bool> placed(count, false);
    for (const CohortSpec& cohort : plan.cohorts) {
        check_cohort(plan, cohort, placed);
    }
    for (std::size_t worker = 0; worker < count; ++worker) {
        if (!placed[worker] && (live.empty() || live[worker])) {
            fail_plan(plan, "a worker without a place", "every live worker in one cohort",
                      fmt::format("worker {} in none", worker));
        }
    }
    check_ranges(plan);
}

}  // namespace cohort
