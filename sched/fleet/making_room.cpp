#include "sched/fleet/making_room.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sched/fleet/contention.hpp"

namespace cohort {
namespace {

std::vector<PlacedJob> placed_jobs(std::span<const RoomJob> jobs) {
    std::vector<PlacedJob> placed;
    for (const RoomJob& job : jobs) {
        placed.push_back(job.placed);
    }
    return placed;
}

/// Seconds of a job's iteration alone.
double iteration_s(const RoomJob& job) {
    double pace = 0;
    for (const JobDemand::Worker& worker : job.placed.demand.workers) {
        pace += worker.iterations_s;
    }
    return static_cast<double>(job.placed.demand.workers.size()) / pace;
}

/// What a pace is divided by. `shortest`: what is left, so that a sum counts jobs that end.
double whole_of(RoomRule rule, const RoomJob& job) {
    return rule == RoomRule::kShortest ? job.left_s : 1;
}

/// What a job's pace is worth: progress per second. `star`: seconds of an iteration, below 0.
double worth_of(RoomRule rule, const RoomJob& job, double pace) {
    return rule == RoomRule::kStar ? -iteration_s(job) / pace : pace / whole_of(rule, job);
}

/// RoomJob::ahead_s counts where jobs take turns.
double ahead_of(RoomRule rule, const RoomJob& job) {
    return rule == RoomRule::kShortest ? job.ahead_s : 0;
}

/// What a job gives to one that ends before it comes back to it when that one has ended.
bool gets_back(RoomRule rule, const RoomJob& giver, const RoomJob& asker) {
    return rule == RoomRule::kShortest && giver.left_s > asker.left_s;
}

/// One look at all jobs: doubles weights as long as it helps.
class Review {
public:
    Review(RoomRule rule, std::span<const NodeRoom> nodes, std::span<const RoomJob> jobs,
           std::span<const double> present, const WeightCaps& caps)
        : rule_(rule),
          jobs_(jobs),
          model_(nodes, placed_jobs(jobs)),
          weights_(jobs.size(), 1.0),
          fair_(model_.solve(weights_)),
          now_(fair_),
          present_(present.begin(), present.end()) {
        const ContentionModel::Solution solution = model_.solve(present);
        for (std::size_t job = 0; job < jobs.size(); ++job) {
            double most = RoomLimits::kMostWeight;
            for (const auto& [pair, cap] : caps) {
                most = pair.first == jobs[job].id ? std::min(most, cap) : most;
            }
            most_.push_back(most);
            const double measured = jobs[job].measured;
            corrections_.push_back(measured > 0 ? measured / solution.progress(job) : 1);
        }
    }

    void run() {
        std::vector<std::size_t> order(jobs_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        // The less of a card a job needs until its end, the less its gain costs the others.
        std::ranges::stable_sort(order, {}, [this](std::size_t job) {
            return whole_of(rule_, jobs_[job]) * model_.waits_alone(job);
        });
        for (const std::size_t job : order) {
            if (!model_.neighbours(job).empty()) {
                raise(job);
            }
        }
        // What was near at each step adds up: judged once more from scratch, as a whole.
        now_ = model_.solve(weights_);
        if (value(now_) < value(fair_)) {
            weights_.assign(jobs_.size(), 1.0);
            now_ = fair_;
        }
    }

    /// With the present weights, instead of run().
    [[nodiscard]] PlanEffect effect_of(std::span<const NodeRoom> nodes, const PlanWish& wish) {
        std::vector<PlacedJob> placed = placed_jobs(jobs_);
        placed[wish.asker].demand = wish.demand;
        const ContentionModel wanted(nodes, placed);
        const ContentionModel::Solution then = wanted.solve(present_);
        now_ = model_.solve(present_);
        const auto worth = [this](std::size_t job, double pace) {
            return pace / whole_of(rule_, jobs_[job]);
        };
        PlanEffect effect{.gain =
                              wish.value * progress(then, wish.asker) - progress(now_, wish.asker)};
        double loss = 0;
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            const double lost = progress(now_, job) - progress(then, job);
            if (job != wish.asker && std::abs(lost) > kNoLoss) {
                effect.losses.emplace(jobs_[job].id, lost);
                loss += worth(job, lost);
            }
        }
        effect.fits = fits(then, wish.asker, kNoLoss) && loss <= worth(wish.asker, effect.gain);
        return effect;
    }

    [[nodiscard]] int refused() const noexcept { return refused_; }
    /// The grant of a job; weight 1: it has none.
    [[nodiscard]] RoomGrant grant(std::size_t job) const {
        RoomGrant grant{.asker = jobs_[job].id, .weight = weights_[job], .givers = {}};
        if (grant.weight == 1) {
            return grant;
        }
        std::vector<double> without = weights_;
        without[job] = 1;
        const ContentionModel::Solution before = model_.solve(without, &now_);
        grant.gain = progress(now_, job) - progress(before, job);
        for (const std::size_t other : model_.neighbours(job)) {
            const double loss = progress(before, other) - progress(now_, other);
            grant.givers.emplace(jobs_[other].id, loss);
        }
        return grant;
    }

private:
    static constexpr double kNoLoss = 1e-3;  ///< of a pace, between two solutions from scratch

    void raise(std::size_t job) {
        while (weights_[job] < most_[job]) {
            weights_[job] *= 2;
            ContentionModel::Solution next = model_.solve(weights_, &now_);
            if (!fits(next, job) || value(next) < value(now_) + least_gain(job)) {
                weights_[job] /= 2;
                ++refused_;
                return;
            }
            now_ = std::move(next);
        }
    }

    /// Relative to alone, corrected by what was measured.
    [[nodiscard]] double progress(const ContentionModel::Solution& solution,
                                  std::size_t job) const {
        return solution.progress(job) * corrections_[job];
    }
    [[nodiscard]] double value(const ContentionModel::Solution& solution) const {
        double sum = 0;
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            sum += worth_of(rule_, jobs_[job], progress(solution, job));
        }
        return sum;
    }
    [[nodiscard]] double least_gain(std::size_t job) const {
        return RoomLimits::kLeastGain * std::abs(worth_of(rule_, jobs_[job], 1));
    }
    /// Nobody else loses below the least pace who does not get it back.
    [[nodiscard]] bool fits(const ContentionModel::Solution& next, std::size_t asker,
                            double error = 1e-6) const {
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            if (job == asker || gets_back(rule_, jobs_[job], jobs_[asker])) {
                continue;
            }
            const double least = least_pace_of(progress(fair_, job), ahead_of(rule_, jobs_[job]));
            const double keeps = std::min(least, progress(now_, job));
            if (progress(next, job) < keeps - error) {
                return false;
            }
        }
        return true;
    }

    RoomRule rule_;
    std::span<const RoomJob> jobs_;
    ContentionModel model_;
    std::vector<double> weights_;
    ContentionModel::Solution fair_;  ///< all weights 1
    ContentionModel::Solution now_;
    std::vector<double> present_;      ///< weights in force
    std::vector<double> most_;         ///< largest weight by job
    std::vector<double> corrections_;  ///< measured by predicted pace
    int refused_ = 0;
};

}  // namespace

void RoomLedger::review(double now_s, std::span<const NodeRoom> nodes,
                        std::span<const RoomJob> jobs) {
    if (rule_ == RoomRule::kOff) {
        return;
    }
    const std::vector<double> present = weights_of(jobs);
    protect_givers(jobs);
    if (slower_than_without(jobs)) {
        none_until_s_ = now_s + RoomLimits::kPauseSeconds;
    }
    std::map<int, RoomGrant> grants;
    if (now_s >= none_until_s_) {
        Review review(rule_, nodes, jobs, present, caps_);
        review.run();
        counts_.refused += review.refused();
        for (std::size_t job = 0; job < jobs.size(); ++job) {
            RoomGrant grant = review.grant(job);
            if (grant.weight > 1) {
                grants.emplace(grant.asker, std::move(grant));
            }
        }
    }
    replace(std::move(grants));
}

PlanEffect RoomLedger::effect_of(std::span<const NodeRoom> nodes, std::span<const RoomJob> jobs,
                                 const PlanWish& wish) const {
    return Review(rule_, nodes, jobs, weights_of(jobs), caps_).effect_of(nodes, wish);
}

std::vector<double> RoomLedger::weights_of(std::span<const RoomJob> jobs) const {
    std::vector<double> weights;
    for (const RoomJob& job : jobs) {
        weights.push_back(weight(job.id));
    }
    return weights;
}

void RoomLedger::protect_givers(std::span<const RoomJob> jobs) {
    constexpr double kReturned = 0.25;
    for (const RoomJob& job : jobs) {
        if (job.measured == 0 || job.measured >= least_pace(job)) {
            continue;
        }
        for (const RoomJob& other : jobs) {
            const auto found = grants_.find(other.id);
            if (found != grants_.end() && found->second.givers.contains(job.id) &&
                !gets_back(rule_, job, other)) {
                caps_[{other.id, job.id}] = std::max(1.0, kReturned * found->second.weight);
            }
        }
    }
}

/// What sharing left the job without grants, if that is less than the limit.
double RoomLedger::least_pace(const RoomJob& job) const {
    constexpr double kNoise = 0.02;
    const auto found = baseline_.find(job.id);
    const double fair = found == baseline_.end() ? RoomLimits::kLeastPace : found->second;
    return least_pace_of(fair * (1 - kNoise), ahead_of(rule_, job));
}

bool RoomLedger::slower_than_without(std::span<const RoomJob> jobs) {
    constexpr double kNoise = 0.005;
    std::map<int, double> paces;
    double before = 0;
    double now = 0;
    bool same = baseline_.size() == jobs.size();
    for (const RoomJob& job : jobs) {
        if (job.measured == 0) {
            return false;
        }
        paces.emplace(job.id, job.measured);
        const auto known = baseline_.find(job.id);
        same = same && known != baseline_.end();
        before += same ? worth_of(rule_, job, known->second) : 0;
        now += worth_of(rule_, job, job.measured);
    }
    if (grants_.empty()) {
        baseline_ = std::move(paces);
        return false;
    }
    return same && now < before - kNoise * std::abs(before);
}

void RoomLedger::replace(std::map<int, RoomGrant> grants) {
    for (const auto& [asker, grant] : grants_) {
        counts_.returned += grants.contains(asker) ? 0 : 1;
    }
    for (const auto& [asker, grant] : grants) {
        counts_.granted += grants_.contains(asker) ? 0 : 1;
    }
    grants_ = std::move(grants);
}

void RoomLedger::release(int job) {
    counts_.returned += static_cast<int>(grants_.erase(job));
    std::erase_if(caps_, [job](const auto& cap) {
        return cap.first.first == job || cap.first.second == job;
    });
}

double RoomLedger::weight(int job) const {
    const auto found = grants_.find(job);
    return found == grants_.end() ? 1 : found->second.weight;
}

}  // namespace cohort
