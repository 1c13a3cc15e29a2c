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
    double mine_s = 0;
    double first_s = 0;
    bool missed = false;  ///< its target in `mine`
};
/// Pairs of one seed, or one pair when there is one seed.
using PairCluster = std::vector<JobPair>;

/// Mean over mean of the drawn clusters' pairs.
Interval ratio(std::vector<PairCluster> clusters) {
    std::erase_if(clusters, [](const PairCluster& pairs) { return pairs.empty(); });
    if (clusters.empty()) {
        return {};
    }
    if (clusters.size() == 1) {
        const PairCluster jobs = std::move(clusters.front());
        clusters.clear();
        for (const JobPair& pair : jobs) {
            clusters.push_back({pair});
        }
    }
    return ClusterBootstrap(clusters.size())([&](std::span<const std::uint32_t> drawn) {
        double above = 0;
        double below = 0;
        for (const std::uint32_t index : drawn) {
            for (const JobPair& pair : clusters[index]) {
                above += pair.mine_s;
                below += pair.first_s;
            }
        }
        return above / below;
    });
}

/// The pairs of two fleets of one seed whose jobs have this time in both.
PairCluster pair_jobs(const FleetResult& mine, const FleetResult& first,
                      std::optional<double> (FleetJobResult::*time)() const) {
    std::map<std::string, const FleetJobResult*> by_name;
    for (const FleetJobResult& job : first.jobs) {
        by_name[job.name] = &job;
    }
    PairCluster pairs;
    for (const FleetJobResult& job : mine.jobs) {
        const auto other = by_name.find(job.name);
        if (other == by_name.end()) {
            continue;
        }
        const std::optional<double> mine_s = (job.*time)();
        const std::optional<double> first_s = (other->second->*time)();
        if (mine_s && first_s) {
            pairs.push_back({*mine_s, *first_s, job.missed()});
        }
    }
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
        std::vector<PairCluster> tta;
        std::vector<PairCluster> completion;
        for (const auto& [key, result] : known) {
            const auto first = known.find({compared.front().label, key.second});
            if (key.first == each.label && first != known.end()) {
                tta.push_back(pair_jobs(*result, *first->second, &FleetJobResult::tta_s));
                completion.push_back(
                    pair_jobs(*result, *first->second, &FleetJobResult::completion_s));
                each.pairs += completion.back().size();
                each.missed += static_cast<std::size_t>(
                    std::ranges::count(tta.back(), true, &JobPair::missed));
                ++each.seeds;
            }
        }
        each.tta = ratio(std::move(tta));
        each.completion = ratio(std::move(completion));
    }
    return compared;
}

}  // namespace cohort
