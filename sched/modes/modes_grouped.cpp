#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sched/cost/worker_grouping.hpp"
#include "sched/modes/mode_table.hpp"
#include "sched/modes/policy_base.hpp"

// Modes that group or rank workers by their own times, with their policies. Each of these has a
// threshold to change and a lower one to change back, so that plans do not flap when times stay
// near a threshold.
namespace cohort {
namespace {

using Groups = std::vector<std::vector<int>>;

/// Changes to new groups for a tenth more throughput, or to fewer groups at (nearly) the same
/// throughput.
class DynamicPolicy final : public PolicyBase {
public:
    using PolicyBase::PolicyBase;

protected:
    void adopt(const SyncPlan& plan) override {
        groups_.clear();
        for (const CohortSpec& cohort : plan.cohorts) {
            groups_.push_back(cohort.members);
        }
    }
    [[nodiscard]] bool wishes() const override {
        constexpr double kGain = 1.1;
        constexpr double kNearly = 0.95;
        const Groups next = similar_groups(live(), times());
        if (next == groups_) {
            return false;
        }
        const double now = pace_of(groups_, live(), times());
        const double then = pace_of(next, live(), times());
        return then > kGain * now || (next.size() < groups_.size() && then >= kNearly * now);
    }
    Decision change() override {
        Decision made = remake("");
        made.reason = "grouped by own time:";
        for (const std::vector<int>& group : groups_) {
            made.reason += fmt::format(" [{}]", fmt::join(group, " "));
        }
        return made;
    }

private:
    Groups groups_;
};

/// Members and riders change places when the slowest member takes a fifth longer than the fastest
/// rider.
class RingPolicy final : public PolicyBase {
public:
    using PolicyBase::PolicyBase;

protected:
    void adopt(const SyncPlan& plan) override { members_ = plan.cohorts.front().members; }
    [[nodiscard]] bool wishes() const override {
        constexpr double kSlower = 1.2;
        double slowest_member = 0;
        double fastest_rider = 0;
        for (std::size_t i = 0; i < live().size(); ++i) {
            const double time = times()[i];
            if (std::ranges::binary_search(members_, live()[i])) {
                slowest_member = std::max(slowest_member, time);
            } else {
                fastest_rider = fastest_rider == 0 ? time : std::min(fastest_rider, time);
            }
        }
        return fastest_rider > 0 && slowest_member > kSlower * fastest_rider;
    }
    Decision change() override {
        Decision made = remake("");
        made.reason = fmt::format("the fastest form the ring: {}", fmt::join(members_, " "));
        return made;
    }

private:
    std::vector<int> members_;
};

/// The k of ksync before each update. A worker that is interrupted every time is never measured, so
/// now and then an update waits for all.
class CutoffPolicy final : public PolicyBase {
public:
    using PolicyBase::PolicyBase;

    Decision start() override {
        quorum_ = best_quorum(times());
        return PolicyBase::start();
    }
    [[nodiscard]] bool looks(const RunCounts& /*counts*/) const override { return true; }

protected:
    Decision remake(std::string reason) override {
        quorum_ = best_quorum(times());
        return plan_of(quorum_, std::move(reason));
    }
    Decision adapt(const Telemetry& telemetry) override {
        const std::vector<double> now = recent_times(telemetry);
        const int all = static_cast<int>(live().size());
        if (quorum_ == all) {
            last_full_ = telemetry.updates;
        }
        if (probing_ && telemetry.updates <= probed_at_) {
            return {};
        }
        const int best = best_quorum(now);
        const bool was_probe = std::exchange(probing_, false);
        if (!was_probe && quorum_ < all && telemetry.updates - last_full_ >= kProbeEvery) {
            probing_ = true;
            probed_at_ = telemetry.updates;
            quorum_ = all;
            return plan_of(all, "an update waits for all, to measure all");
        }
        if (best == quorum_ || (!was_probe && work(now, best) < kGain * work(now, quorum_))) {
            return {};
        }
        quorum_ = best;
        return plan_of(best, fmt::format("most work per second with {} of {}", best, all));
    }

private:
    static constexpr std::int64_t kProbeEvery = 64;  ///< updates
    static constexpr double kGain = 1.02;

    /// An interrupted worker has the time of its newest push if that was quicker: a mean would keep
    /// a slow time for too long if it is measured once in kProbeEvery updates.
    [[nodiscard]] std::vector<double> recent_times(const Telemetry& telemetry) const {
        std::vector<double> seconds = setting().own_seconds;
        std::vector<double> sorted = own_times(seconds, live());
        std::ranges::sort(sorted);
        const double counted = sorted[static_cast<std::size_t>(best_quorum(sorted)) - 1];
        for (const int worker : live()) {
            const auto i = static_cast<std::size_t>(worker);
            const double last = telemetry.workers[i].last_own_s;
            if (seconds[i] > counted && last > 0) {
                seconds[i] = std::min(seconds[i], last);
            }
        }
        return own_times(seconds, live());
    }

    [[nodiscard]] static double work(std::vector<double> times, int quorum) {
        std::ranges::sort(times);
        return quorum / times[static_cast<std::size_t>(quorum) - 1];
    }

    [[nodiscard]] Decision plan_of(int quorum, std::string reason) const {
        return {.plan = make_plan(fmt::format("ksync:{}", quorum), setting()),
                .batches = {},
                .reason = std::move(reason)};
    }

    int quorum_ = 0;
    bool probing_ = false;
    std::int64_t probed_at_ = 0;  ///< update of the last probe
    std::int64_t last_full_ = 0;  ///< last update that waited for all
};

constexpr double kAll = 1'000'000;  ///< more than any number of workers

SyncPlan dynamic(const ModeRequest& request) {
    const std::vector<double> times = own_times(request.setting.own_seconds, request.live);
    return grouped_plan(similar_groups(request.live, times), request.setting);
}

SyncPlan ring(const ModeRequest& request) {
    const int count = request.of_workers(0);
    const std::vector<double> times = own_times(request.setting.own_seconds, request.live);
    const std::vector<int> members = fastest(request.live, times, count);
    std::vector<int> riders;
    std::set_difference(request.live.begin(), request.live.end(), members.begin(), members.end(),
                        std::back_inserter(riders));
    SyncPlan plan;
    plan.cohorts.push_back({.members = members, .riders = std::move(riders), .quorum = count});
    return plan;
}

/// `ksync` with the k that maximises the work per second.
SyncPlan cutoff(const ModeRequest& request) {
    const int k = best_quorum(own_times(request.setting.own_seconds, request.live));
    return make_plan("ksync:" + std::to_string(k), request.setting);
}

}  // namespace

std::vector<ModeEntry> grouped_modes() {
    return {
        {.name = "dynamic", .parameters = {}, .plan = dynamic, .policy = policy_of<DynamicPolicy>},
        {.name = "cutoff", .parameters = {}, .plan = cutoff, .policy = policy_of<CutoffPolicy>},
        {.name = "ring",
         .servers = false,
         .rings = true,
         .parameters =
             {{.name = "X", .least = 1, .most = ModeParameter::Most::kWorkers, .fallback = kAll}},
         .plan = ring,
         .policy = policy_of<RingPolicy>},
    };
}

}  // namespace cohort
