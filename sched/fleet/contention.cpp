#include "sched/fleet/contention.hpp"

#include <algorithm>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr int kRounds = 60;
constexpr int kRoundsFromNear = 12;

/// T_i E_ij. @param own, other  lengths of j's and of i's phase  @param ratio  w_i / w_j
double loss_of_meeting(double own, double other, double ratio) {
    return ratio * own >= other
               ? own * other + (other * other - other * other / ratio) / 2
               : ratio * own * other + (ratio * own * own - ratio * ratio * own * own) / 2;
}

}  // namespace

ContentionModel::ContentionModel(std::span<const NodeRoom> nodes, std::span<const PlacedJob> jobs)
    : jobs_(jobs.size()), links_(3 * nodes.size()), alone_(jobs.size() * kPhases, 0) {
    const PlacementLoad load(nodes, jobs);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        links_[3 * node].processors = true;
        links_[3 * node].used = nodes[node].used.cores;
        links_[3 * node + 1].used = nodes[node].used.rx;
        links_[3 * node + 2].used = nodes[node].used.tx;
    }
    for (std::size_t job = 0; job < jobs.size(); ++job) {
        add_job(load, job, nodes, jobs[job]);
    }
    std::erase_if(links_, [](const Link& link) {
        return link.uses.empty() ||
               (link.used == 0 && link.uses.front().job == link.uses.back().job);
    });
}

void ContentionModel::add_job(const PlacementLoad& load, std::size_t job,
                              std::span<const NodeRoom> nodes, const PlacedJob& placed) {
    const JobDemand& demand = placed.demand;
    std::vector<double> serving(nodes.size(), 0);
    std::vector<int> servers(nodes.size(), 0);
    for (std::size_t i = 0; i < placed.servers.size(); ++i) {
        const auto node = static_cast<std::size_t>(placed.servers[i]);
        serving[node] =
            std::max(serving[node], demand.shares[i] * demand.server_cores / demand.server_threads);
        ++servers[node];
    }
    double pace = 0;
    for (const JobDemand::Worker& worker : demand.workers) {
        pace += worker.iterations_s / static_cast<double>(demand.workers.size());
    }
    const double push_s = pace * demand.push_bytes;
    const double pull_s = pace * demand.pull_bytes;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        const PlacementLoad::Load& own = load.load(job, node);
        if (!own.any) {
            continue;
        }
        const NodeCapacity& has = nodes[node].capacity;
        const auto card = [&](std::size_t link, Phase phase, double share, double flow) {
            if (flow > 0) {
                add_use(3 * node + link, {job, phase, share, share, share / flow});
            }
        };
        const double input = demand.worker_cores / demand.worker_threads;
        add_use(3 * node, {job, kInput, own.input > 0 ? input : 0, own.input, 1});
        add_use(3 * node, {job, kServe, std::max(serving[node], own.serving), own.serving,
                           static_cast<double>(servers[node])});
        card(1, kPush, own.push_in, push_s / has.rx_bytes_s);
        card(1, kPull, own.pull_in, pull_s / has.rx_bytes_s);
        card(2, kPush, own.push_out, push_s / has.tx_bytes_s);
        card(2, kPull, own.pull_out, pull_s / has.tx_bytes_s);
    }
}

void ContentionModel::add_use(std::size_t link, const Use& use) {
    constexpr double kNothing = 1e-9;
    if (use.length > kNothing) {
        links_[link].uses.push_back(use);
        double& alone = alone_[use.job * kPhases + use.phase];
        alone = std::max(alone, use.length);
    }
}

/// Sums over pairs of uses of a link, in their order: by use and job of the other.
std::vector<double> ContentionModel::coefficients(std::span<const double> weights) const {
    std::vector<double> pairs;
    for (const Link& link : links_) {
        for (const Use& own : link.uses) {
            for (const Use& other : link.uses) {
                pairs.push_back(own.job == other.job
                                    ? 0
                                    : loss_of_meeting(own.length, other.length,
                                                      weights[other.job] * other.flows /
                                                          (weights[own.job] * own.flows)));
            }
        }
    }
    return pairs;
}

void ContentionModel::round(std::span<const double> pairs, Solution& solution) const {
    constexpr double kLeastFactor = 0.02;  // processors: below this they hold nobody up
    std::vector<double> late(alone_.size(), 0);
    std::size_t first_pair = 0;
    std::size_t first_use = 0;
    std::vector<double> fresh(solution.losses.size());
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const Link& link = links_[i];
        double& factor = solution.factors[i];
        double taken = link.used;
        const std::size_t count = link.uses.size();
        double* losses = solution.losses.data() + first_use;
        for (std::size_t k = 0; k < count; ++k) {
            const Use& own = link.uses[k];
            double loss = own.length * link.used;
            for (std::size_t m = 0; m < count; ++m) {
                const Use& other = link.uses[m];
                // The other's phase lasts longer as well, by what third jobs do to it.
                const double by_own = pairs[first_pair + m * count + k] / solution.lengths[own.job];
                const double stretched = 1 + std::max(0.0, losses[m] - by_own) / other.length;
                loss += pairs[first_pair + k * count + m] / solution.lengths[other.job] * stretched;
            }
            fresh[first_use + k] = loss;
            const std::size_t phase = own.job * kPhases + own.phase;
            late[phase] += std::max(0.0, own.length + factor * loss - alone_[phase]);
            taken += own.load / solution.lengths[own.job];
        }
        first_pair += count * count;
        first_use += count;
        const double least = link.processors ? 0 : 1;
        factor = std::max(least, std::max(factor, kLeastFactor) * taken);
        factor = link.processors && factor <= kLeastFactor ? 0 : factor;
    }
    solution.losses = std::move(fresh);
    for (std::size_t job = 0; job < jobs_; ++job) {
        double length = 1;
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            length += late[job * kPhases + phase];
        }
        solution.lengths[job] = (solution.lengths[job] + length) / 2;
    }
}

ContentionModel::Solution ContentionModel::solve(std::span<const double> weights,
                                                 const Solution* start) const {
    check_invariant(weights.size() == jobs_, "a weight for each job");
    Solution solution;
    if (start != nullptr) {
        solution = *start;
    } else {
        solution.lengths.assign(jobs_, 1);
        for (const Link& link : links_) {
            solution.factors.push_back(link.processors ? 0 : 1);
            solution.losses.resize(solution.losses.size() + link.uses.size(), 0);
        }
    }
    const std::vector<double> pairs = coefficients(weights);
    for (int i = 0; i < (start != nullptr ? kRoundsFromNear : kRounds); ++i) {
        round(pairs, solution);
    }
    return solution;
}

double ContentionModel::waits_alone(std::size_t job) const {
    const auto first = alone_.begin() + static_cast<std::ptrdiff_t>(job * kPhases);
    return std::accumulate(first, first + kPhases, 0.0);
}

std::vector<std::size_t> ContentionModel::neighbours(std::size_t job) const {
    std::vector<bool> meets(jobs_, false);
    for (const Link& link : links_) {
        const bool used =
            std::ranges::any_of(link.uses, [job](const Use& use) { return use.job == job; });
        for (const Use& use : link.uses) {
            meets[use.job] = meets[use.job] || (used && use.job != job);
        }
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < jobs_; ++i) {
        if (meets[i]) {
            found.push_back(i);
        }
    }
    return found;
}

}  // namespace cohort
