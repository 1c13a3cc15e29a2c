#include "cohort/sched/modes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <numeric>
#include <optional>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_mode(std::string_view mode, std::string_view what, Architecture architecture,
                            const std::string& expected) {
    fail<UsageError>({.where = "--mode",
                      .what = fmt::format(
                          "{} {}", what, architecture == Architecture::kRing ? "rings" : "servers"),
                      .expected = expected,
                      .got = fmt::format("'{}'", mode)});
}

/// One cohort of all workers.
SyncPlan one_cohort(int workers, int quorum) {
    SyncPlan plan;
    plan.cohorts.resize(1);
    plan.cohorts[0].members.resize(static_cast<std::size_t>(workers));
    std::iota(plan.cohorts[0].members.begin(), plan.cohorts[0].members.end(), 0);
    plan.cohorts[0].quorum = quorum;
    return plan;
}

SyncPlan cohorts_of_one(int workers) {
    SyncPlan plan;
    for (int worker = 0; worker < workers; ++worker) {
        plan.cohorts.push_back({.members = {worker}, .riders = {}});
    }
    return plan;
}

/// X of "static:X"; nothing for any other text.
std::optional<int> parse_static(std::string_view mode) {
    constexpr std::string_view kPrefix = "static:";
    if (!mode.starts_with(kPrefix)) {
        return {};
    }
    const std::string_view digits = mode.substr(kPrefix.size());
    int x = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    const bool whole = error == std::errc{} && end == digits.data() + digits.size();
    return whole ? x : 0;  // no number of workers
}

SyncPlan server_plan(std::string_view mode, int workers) {
    if (mode == "ssgd") {
        return one_cohort(workers, workers);
    }
    if (mode == "asgd") {
        return cohorts_of_one(workers);
    }
    if (const std::optional<int> x = parse_static(mode)) {
        if (*x < 1 || *x > workers) {
            fail_mode(mode, "no such number of workers per update with", Architecture::kServers,
                      fmt::format("static:X with X from 1 to the {} workers", workers));
        }
        return one_cohort(workers, *x);
    }
    fail_mode(mode, "unknown mode with", Architecture::kServers,
              fmt::format("{}", fmt::join(mode_names(Architecture::kServers), ", ")));
}

}  // namespace

Architecture parse_architecture(std::string_view text) {
    if (text == "servers") {
        return Architecture::kServers;
    }
    if (text == "ring") {
        return Architecture::kRing;
    }
    fail<UsageError>({.where = "--arch",
                      .what = "unknown architecture",
                      .expected = "servers or ring",
                      .got = fmt::format("'{}'", text)});
}

StaleMomentum parse_stale_momentum(std::string_view text) {
    if (text == "look-ahead") {
        return StaleMomentum::kLookAhead;
    }
    if (text == "keep") {
        return StaleMomentum::kKeep;
    }
    fail<UsageError>({.where = "--stale-momentum",
                      .what = "unknown treatment of momentum",
                      .expected = "look-ahead or keep",
                      .got = fmt::format("'{}'", text)});
}

SyncPlan::LrUnit parse_lr_rule(std::string_view text) {
    if (text == "per-sample") {
        return SyncPlan::LrUnit::kPerSample;
    }
    if (text == "published") {
        return SyncPlan::LrUnit::kPublished;
    }
    if (text == "adascale") {
        return SyncPlan::LrUnit::kAdaScale;
    }
    fail<UsageError>({.where = "--lr-rule",
                      .what = "unknown rule",
                      .expected = "per-sample, published or adascale",
                      .got = fmt::format("'{}'", text)});
}

SyncPlan make_plan(std::string_view mode, const ModeSetting& setting) {
    const int workers = static_cast<int>(setting.live.size());
    check_invariant(workers > 0, "a plan is for at least one worker");
    SyncPlan plan;
    if (setting.architecture == Architecture::kServers) {
        plan = server_plan(mode, workers);
        plan.look_ahead =
            !is_synchronous(plan) && setting.stale_momentum == StaleMomentum::kLookAhead;
    } else if (mode == "ring" || mode == "ssgd") {
        plan = one_cohort(workers, workers);
    } else {
        fail_mode(
            mode, "a mode that does not run on", setting.architecture,
            fmt::format("{}, or --arch servers", fmt::join(mode_names(Architecture::kRing), ", ")));
    }
    plan.name = mode;
    return plan;
}

std::string default_mode(Architecture architecture) {
    return architecture == Architecture::kRing ? "ring" : "ssgd";
}

std::vector<std::string> mode_names(Architecture architecture) {
    if (architecture == Architecture::kRing) {
        return {"ring", "ssgd"};
    }
    return {"ssgd", "asgd", "static:X"};
}

bool is_synchronous(const SyncPlan& plan) {
    if (plan.cohorts.size() != 1 || plan.release != SyncPlan::Release::kOnFire) {
        return false;
    }
    const CohortSpec& all = plan.cohorts.front();
    return all.riders.empty() && static_cast<std::size_t>(all.quorum) >= all.members.size() &&
           all.count == CohortSpec::Count::kWorkers;
}

}  // namespace cohort
