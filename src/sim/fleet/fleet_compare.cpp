#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sim/fleet.hpp"

namespace cohort {
namespace {

/// The times of one job in two fleets.
struct JobPair {
    double tta_s = 0;
    double first_tta_s = 0;
    double completion_s = 0;
    double first_completion_s = 0;
};
/// Pairs of one seed, or one pair when there is one seed.
using PairCluster = std::vector<JobPair>;

/// Mean over mean of the drawn clusters' pairs.
Interval ratio(const std::vector<PairCluster>& clusters, double JobPair::*mine,
               double JobPair::*first) {
    return ClusterBootstrap(clusters.size())([&](std::span<const std::uint32_t> drawn) {
        double above = 0;
        double below = 0;
        for (const std::uint32_t index : drawn) {
            for (const JobPair& pair : clusters[index]) {
                above += pair.*mine;
                below += pair.*first;
            }
        }
        return above / below;
    });
}

/// The pairs of two fleets of one seed, which are counted in `to`.
PairCluster pair_jobs(const FleetResult& mine, const FleetResult& first, FleetComparison& to) {
    std::map<std::string, const FleetJobResult*> by_name;
    for (const FleetJobResult& job : first.jobs) {
        by_name[job.name] = &job;
    }
    PairCluster pairs;
    for (const FleetJobResult& job : mine.jobs) {
        const auto other = by_name.find(job.name);
        if (other == by_name.end() || !job.ended() || !other->second->ended()) {
            continue;
        }
        pairs.push_back({.tta_s = job.tta_s(),
                         .first_tta_s = other->second->tta_s(),
                         .completion_s = job.completion_s(),
                         .first_completion_s = other->second->completion_s()});
        to.missed += job.missed() ? 1 : 0;
    }
    to.pairs += pairs.size();
    return pairs;
}

}  // namespace

std::vector<FleetComparison> compare_fleets(const std::vector<FleetResult>& results) {
    std::vector<FleetComparison> compared;
    std::map<std::pair<std::string, std::uint64_t>, const FleetResult*> known;
    for (const FleetResult& result : results) {
        if (!known.emplace(std::pair(result.label, result.seed), &result).second) {
            fail<UsageError>({.where = "fleets",
                              .what = "two results of one label and seed",
                              .expected = "different labels",
                              .got = fmt::format("'{}', seed {}", result.label, result.seed)});
        }
        if (std::ranges::find(compared, result.label, &FleetComparison::label) == compared.end()) {
            compared.push_back({.label = result.label});
        }
    }
    for (FleetComparison& each : compared) {
        std::vector<PairCluster> clusters;
        for (const auto& [key, result] : known) {
            const auto first = known.find({compared.front().label, key.second});
            if (key.first == each.label && first != known.end()) {
                clusters.push_back(pair_jobs(*result, *first->second, each));
                ++each.seeds;
            }
        }
        if (clusters.size() == 1) {
            const PairCluster jobs = std::move(clusters.front());
            clusters.clear();
            for (const JobPair& pair : jobs) {
                clusters.push_back({pair});
            }
        }
        if (each.pairs > 0) {
            each.tta = ratio(clusters, &JobPair::tta_s, &JobPair::first_tta_s);
            each.completion = ratio(clusters, &JobPair::completion_s, &JobPair::first_completion_s);
        }
    }
    return compared;
}

}  // namespace cohort
