#include "sched/fleet/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <random>

#include "cohort/core/error.hpp"
#include "sched/fleet/placement_load.hpp"

namespace cohort {
namespace {

constexpr int kMostTrials = 200000;  ///< moves that are tried in one search
constexpr int kKicks = 50;
constexpr int kMostKickTrials = 20000;
/// Servers of a job are placed together where they have no more placements than this.
constexpr double kMostJobPlacements = 5000;

/// A server that may move.
struct MovableServer {
    std::size_t job = 0;
    std::size_t server = 0;
    double bytes_s = 0;  ///< pushed to it
};

/// What a search makes as small as possible, the first that differs counts.
struct SearchScore {
    double first = 0;
    double second = 0;

    [[nodiscard]] bool better_than(const SearchScore& other) const noexcept {
        constexpr double kNoise = 1e-9;
        const double margin = kNoise * (1 + other.first);
        return first < other.first - margin ||
               (first <= other.first + margin &&
                second < other.second - kNoise * (1 + other.second));
    }
};

/// Greedy placement, moves and swaps by one of the two scores.
class PlacementSearch {
public:
    PlacementSearch(std::span<const NodeRoom> nodes, std::span<const PlacedJob> jobs,
                    PlacementRule rule)
        : nodes_(static_cast<int>(nodes.size())), rule_(rule), load_(nodes, jobs) {
        for (std::size_t job = 0; job < jobs.size(); ++job) {
            const JobDemand& demand = jobs[job].demand;
            double pushes = 0;
            for (const JobDemand::Worker& worker : demand.workers) {
                pushes += worker.iterations_s;
            }
            for (std::size_t server = 0; server < load_.servers(job).size(); ++server) {
                if (load_.node_of(job, server) == PlacementLoad::kNowhere) {
                    movable_.push_back(
                        {job, server, pushes * demand.push_bytes * demand.shares[server]});
                }
            }
        }
        by_job_ = movable_;
        std::ranges::stable_sort(movable_, std::greater<>(), &MovableServer::bytes_s);
    }

    /// From nothing.
    void place_greedily() {
        for (const MovableServer& one : movable_) {
            place_best(one, /*anywhere=*/true);
        }
    }
    /// From a placement of all jobs.
    void start_from(std::span<const PlacedJob> placed) {
        for (const MovableServer& one : movable_) {
            load_.move(one.job, one.server, placed[one.job].servers[one.server]);
        }
    }
    void improve() {
        bool any = true;
        while (any && trials_ < kMostTrials) {
            any = false;
            for (const MovableServer& one : movable_) {
                any = place_best(one, /*anywhere=*/false) || any;
            }
            any = swap_pairs() || any;
            any = any || place_jobs_exactly();
        }
    }
    /// Two servers go anywhere, the others follow; the best placement remains.
    void kick(int times) {
        std::mt19937_64 random(1);
        if (movable_.empty()) {
            return;
        }
        for (int i = 0; i < times && trials_ < kMostKickTrials; ++i) {
            const SearchScore before = score();
            const PlacementLoad known = load_;
            for (int k = 0; k < 2; ++k) {
                const MovableServer& one = movable_[random() % movable_.size()];
                load_.move(one.job, one.server,
                           static_cast<int>(random() % static_cast<std::uint64_t>(nodes_)));
            }
            improve();
            if (!score().better_than(before)) {
                load_ = known;
            }
        }
    }
    [[nodiscard]] SearchScore score() const {
        const PlacementScore score = load_.score();
        return rule_ == PlacementRule::kWaits ? SearchScore{score.waits, score.crossing}
                                              : SearchScore{score.utilisation, load_.squares()};
    }
    [[nodiscard]] const PlacementLoad& load() const noexcept { return load_; }

private:
    /// The best node for one server. @param anywhere  it leaves its node even if none is better
    /// @return has it moved?
    bool place_best(const MovableServer& one, bool anywhere) {
        const int before = load_.node_of(one.job, one.server);
        int best = before;
        SearchScore least = score();
        for (int node = 0; node < nodes_ && (anywhere || trials_ < kMostTrials); ++node) {
            if (node == before) {
                continue;
            }
            ++trials_;
            load_.move(one.job, one.server, node);
            const SearchScore now = score();
            if ((anywhere && best == before) || now.better_than(least)) {
                best = node;
                least = now;
            }
        }
        load_.move(one.job, one.server, best);
        return best != before;
    }

    bool swap_pairs() {
        bool any = false;
        for (std::size_t i = 0; i < movable_.size(); ++i) {
            for (std::size_t k = i + 1; k < movable_.size() && trials_ < kMostTrials; ++k) {
                any = swap_if_better(movable_[i], movable_[k]) || any;
            }
        }
        return any;
    }

    /// Tries all placements of the movable servers of each job, where they are not too many.
    /// @return is any better?
    bool place_jobs_exactly() {
        bool any = false;
        for (std::size_t i = 0; i < movable_.size();) {
            std::vector<MovableServer> of_job;
            const std::size_t job = by_job_[i].job;
            double placements = 1;
            for (; i < by_job_.size() && by_job_[i].job == job; ++i) {
                of_job.push_back(by_job_[i]);
                placements *= nodes_;
            }
            if (of_job.size() > 1 && placements <= kMostJobPlacements) {
                any = place_exactly(of_job) || any;
            }
        }
        return any;
    }

    bool place_exactly(const std::vector<MovableServer>& servers) {
        std::vector<int> best;
        for (const MovableServer& one : servers) {
            best.push_back(load_.node_of(one.job, one.server));
        }
        SearchScore least = score();
        const std::vector<int> before = best;
        std::vector<int> nodes(servers.size(), 0);
        for (bool more = true; more;) {
            set(servers, nodes);
            ++trials_;
            if (const SearchScore now = score(); now.better_than(least)) {
                least = now;
                best = nodes;
            }
            more = false;
            for (std::size_t i = 0; i < nodes.size() && !more; ++i) {
                more = ++nodes[i] < nodes_;
                nodes[i] = more ? nodes[i] : 0;
            }
        }
        set(servers, best);
        return best != before;
    }

    void set(const std::vector<MovableServer>& servers, const std::vector<int>& nodes) {
        for (std::size_t i = 0; i < servers.size(); ++i) {
            if (load_.node_of(servers[i].job, servers[i].server) != nodes[i]) {
                load_.move(servers[i].job, servers[i].server, nodes[i]);
            }
        }
    }

    bool swap_if_better(const MovableServer& one, const MovableServer& other) {
        const int here = load_.node_of(one.job, one.server);
        const int there = load_.node_of(other.job, other.server);
        if (here == there || (one.job == other.job && one.bytes_s == other.bytes_s)) {
            return false;
        }
        ++trials_;
        const SearchScore before = score();
        load_.move(one.job, one.server, there);
        load_.move(other.job, other.server, here);
        if (score().better_than(before)) {
            return true;
        }
        load_.move(one.job, one.server, here);
        load_.move(other.job, other.server, there);
        return false;
    }

    int nodes_;
    PlacementRule rule_;
    PlacementLoad load_;
    std::vector<MovableServer> movable_;  ///< the largest first
    std::vector<MovableServer> by_job_;
    int trials_ = 0;
};

/// Nodes for the servers of one job by a rule that looks at no load.
class PlainPlacement {
public:
    PlainPlacement(std::size_t nodes, PlacementRule rule, std::uint64_t seed)
        : rule_(rule), random_(seed), servers_(nodes, 0) {}

    /// Servers that are where they are.
    void count(const std::vector<int>& placed) {
        for (const int node : placed) {
            ++servers_[static_cast<std::size_t>(node)];
        }
    }
    [[nodiscard]] std::vector<int> place(const JobDemand& demand) {
        const std::vector<int> beside = nodes_of_workers(demand);
        const int emptiest = fewest_servers();
        std::vector<int> placed;
        for (std::size_t server = 0; server < demand.shares.size(); ++server) {
            placed.push_back(node_for(server, beside, emptiest));
            ++servers_[static_cast<std::size_t>(placed.back())];
        }
        return placed;
    }

private:
    [[nodiscard]] int fewest_servers() const {
        return static_cast<int>(std::ranges::min_element(servers_) - servers_.begin());
    }

    [[nodiscard]] int node_for(std::size_t server, const std::vector<int>& beside, int emptiest) {
        const std::size_t nodes = servers_.size();
        switch (rule_) {
            case PlacementRule::kPacked: return emptiest;
            case PlacementRule::kBeside: return beside[server % beside.size()];
            case PlacementRule::kRandom: return static_cast<int>(random_() % nodes);
            case PlacementRule::kStar: return static_cast<int>(server % nodes);
            default: return fewest_servers();
        }
    }

    /// Those with most workers first.
    [[nodiscard]] std::vector<int> nodes_of_workers(const JobDemand& demand) const {
        std::vector<int> workers(servers_.size(), 0);
        for (const JobDemand::Worker& worker : demand.workers) {
            ++workers[static_cast<std::size_t>(worker.node)];
        }
        std::vector<int> nodes(servers_.size());
        std::iota(nodes.begin(), nodes.end(), 0);
        std::erase_if(nodes,
                      [&](int node) { return workers[static_cast<std::size_t>(node)] == 0; });
        std::ranges::stable_sort(nodes, std::greater<>(),
                                 [&](int node) { return workers[static_cast<std::size_t>(node)]; });
        return nodes;
    }

    PlacementRule rule_;
    std::mt19937_64 random_;
    std::vector<int> servers_;  ///< by node
};

void place_plainly(std::size_t nodes, std::span<PlacedJob> jobs, PlacementRule rule,
                   std::uint64_t seed) {
    PlainPlacement plain(nodes, rule, seed);
    for (const PlacedJob& job : jobs) {
        plain.count(job.servers);
    }
    for (PlacedJob& job : jobs) {
        if (job.servers.empty()) {
            job.servers = plain.place(job.demand);
        }
    }
}

}  // namespace

void place_servers(std::span<const NodeRoom> nodes, std::span<PlacedJob> jobs, PlacementRule rule,
                   std::uint64_t seed) {
    check_invariant(!nodes.empty(), "servers need nodes");
    if (rule != PlacementRule::kWaits && rule != PlacementRule::kUtilisation) {
        place_plainly(nodes.size(), jobs, rule, seed);
        return;
    }
    PlacementSearch best(nodes, jobs, rule);
    best.place_greedily();
    best.improve();
    for (const PlacementRule from : {PlacementRule::kEven, PlacementRule::kBeside}) {
        std::vector<PlacedJob> placed(jobs.begin(), jobs.end());
        place_plainly(nodes.size(), placed, from, seed);
        PlacementSearch search(nodes, jobs, rule);
        search.start_from(placed);
        search.improve();
        if (search.score().better_than(best.score())) {
            best = std::move(search);
        }
    }
    best.kick(kKicks);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
        jobs[job].servers = best.load().servers(job);
    }
}

}  // namespace cohort
