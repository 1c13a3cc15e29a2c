#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cohort/sched/fleet_rules.hpp"
#include "sched/fleet/placement.hpp"

namespace cohort {

/// A running job, as the review of weights sees it.
struct RoomJob {
    int id = 0;
    PlacedJob placed;  ///< at its pace alone
    /// Seconds that it needs alone until its end. kShortest: of two jobs, the gain of the one that
    /// has less left counts for more.
    double left_s = 1;
    /// Seconds of its pace alone by which it is ahead of one that went at RoomLimits::kLeastPace
    /// from its start on; below 0: behind. Counts under kShortest.
    double ahead_s = 0;
    /// Pace with the weights in force, relative to its pace alone, as measured; 0: not known.
    double measured = 0;
};

struct RoomLimits {
    /// Of its pace alone that a job keeps, if sharing leaves it as much; kShortest: on the average
    /// from its start on.
    static constexpr double kLeastPace = 0.7;
    static constexpr double kSpendsSeconds = 60;  ///< kShortest: may lose what it is ahead in these
    static constexpr double kMostWeight = 64;     ///< of a grant, a power of 2
    static constexpr double kLeastGain = 0.002;   ///< of the asker's relative progress, by doubling
    static constexpr double kPauseSeconds = 300;  ///< without grants where these did harm
};

/// A weight above 1 in weighted max-min sharing. What the asker gets beyond an equal share is taken
/// from the jobs whose transfers meet its own, in proportion to what they take, which is in
/// proportion to 1 / sensitivity: the relative progress lost per share r of a card is 1 / u for a
/// job that needs the share u of it.
struct RoomGrant {
    int asker = 0;
    double weight = 1;
    double gain = 0;  ///< of the asker's relative progress, predicted
    /// Loss of relative progress by job that shares a link with the asker; below 0: it gains.
    std::map<int, double> givers;
};

/// The pace below which a job must not be pushed. @param fair  its pace without grants
/// @param ahead_s  RoomJob::ahead_s
[[nodiscard]] inline double least_pace_of(double fair, double ahead_s = 0) {
    return std::min(RoomLimits::kLeastPace - ahead_s / RoomLimits::kSpendsSeconds, fair);
}

/// Another plan that a job wants.
struct PlanWish {
    std::size_t asker = 0;  ///< index of the job
    JobDemand demand;       ///< of the plan, at its pace alone
    double value = 1;       ///< progress per second alone, relative to the present plan
};

/// What a plan that is wanted is predicted to do, in relative progress.
struct PlanEffect {
    bool fits = true;
    double gain = 0;  ///< of the asker; 1: its progress alone under the present plan
    std::map<int, double> losses = {};  ///< by job that shares a link with the asker
};

/// Largest weight of an asker (first) that took too much from a giver (second), by their ids.
using WeightCaps = std::map<std::pair<int, int>, double>;

/// Grants in force, and how many there were. Pure: times are given.
class RoomLedger {
public:
    struct Counts {
        int granted = 0;   ///< grants that a review made anew
        int refused = 0;   ///< doublings of a weight that would have cost more than they brought
        int returned = 0;  ///< ended with their asker, its plan, or by a review
    };

    explicit RoomLedger(RoomRule rule) : rule_(rule) {}

    /// Looks at all jobs: after an arrival, an end, a change of a plan, or now and then. Replaces
    /// all grants. The sum of progress (kShortest: as a share of what each job has left) is
    /// predicted never to be lower than without grants, and no job falls below the least pace by
    /// them. Predictions are multiplied by what was measured with the present
    /// weights, relative to what is predicted for them. What was measured has the last word: a job
    /// that is below the least pace and gives way to grants gets them back, three quarters at each
    /// review, until it or the asker ends or changes its plan; when the same jobs went faster
    /// without grants, there are none for RoomLimits::kPauseSeconds.
    void review(double now_s, std::span<const NodeRoom> nodes, std::span<const RoomJob> jobs);
    /// The job has ended, died, or changed its plan: its grants are over.
    void release(int job);

    /// A plan fits when it pushes no other job below the least pace, as a grant must not, and the
    /// others together lose no more progress (kShortest: as a share of what each has left) than the
    /// asker gains, with the weights in force. So one that costs the asker itself more than it
    /// brings does not fit, unless it brings the others as much.
    [[nodiscard]] PlanEffect effect_of(std::span<const NodeRoom> nodes,
                                       std::span<const RoomJob> jobs, const PlanWish& wish) const;

    /// Weight of the job's transfers and work of servers.
    [[nodiscard]] double weight(int job) const;
    [[nodiscard]] const std::map<int, RoomGrant>& grants() const noexcept { return grants_; }
    [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

private:
    [[nodiscard]] std::vector<double> weights_of(std::span<const RoomJob> jobs) const;
    void protect_givers(std::span<const RoomJob> jobs);
    [[nodiscard]] double least_pace(const RoomJob& job) const;
    [[nodiscard]] bool slower_than_without(std::span<const RoomJob> jobs);
    void replace(std::map<int, RoomGrant> grants);

    RoomRule rule_;
    std::map<int, RoomGrant> grants_;  ///< by asker
    WeightCaps caps_;
    std::map<int, double> baseline_;  ///< pace by job of the same jobs without grants, measured
    double none_until_s_ = 0;
    Counts counts_;
};

}  // namespace cohort
