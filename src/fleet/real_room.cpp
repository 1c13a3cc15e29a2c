#include "fleet/real_room.hpp"

#include <cmath>
#include <utility>

namespace cohort {
namespace {

/// The pace alone is computed from times that were measured, which are never the same twice.
bool about_the_same(const JobNeeds& known, const JobNeeds& now) {
    constexpr double kDiffers = 0.1;
    return std::abs(now.samples_s / known.samples_s - 1) < kDiffers;
}

}  // namespace

void RealRoom::heard(const FleetReport& report, double now_s) {
    const std::size_t job = report.job;
    const FleetReport::Going& going = report.going;
    if (!review_.runs(job)) {
        told_[job] = {.plan = going.plan};
        review_.start(job, now_s,
                      {.budget_samples = going.budget_samples,
                       .reference_batch = going.reference_batch,
                       .samples = report.samples},
                      going.needs);
        return;
    }
    review_.applied(job, report.samples);
    const bool another = std::exchange(told_.at(job).plan, going.plan) != going.plan;
    if (another) {
        review_.release(job, now_s);
    }
    if (another || !about_the_same(review_.needs(job), going.needs)) {
        review_.needs(job, now_s, going.needs);
    }
}

bool RealRoom::admits(const FleetReport& report, double now_s) {
    return review_.admits(report.job, now_s,
                          {.from = report.going.plan_name,
                           .to = report.wish.plan,
                           .needs = report.wish.needs,
                           .worth = report.wish.worth,
                           .for_others_only = true});
}

void RealRoom::end(std::size_t job, double now_s) {
    review_.end(job, now_s);
    told_.erase(job);
}

std::vector<RealRoom::Weight> RealRoom::review_if_due(double now_s) {
    std::vector<Weight> changed;
    if (!review_.due(now_s)) {
        return changed;
    }
    review_.review(now_s);
    for (auto& [job, told] : told_) {
        const double weight = review_.weight(job);
        if (std::exchange(told.weight, weight) != weight) {
            changed.push_back({.job = job, .weight = weight});
        }
    }
    return changed;
}

}  // namespace cohort
