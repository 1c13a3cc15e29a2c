#include "sim/job/servers_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/update_cost.hpp"
#include "sim/job/virtual_job.hpp"

// What servers do, and what the engine decides.
namespace cohort {
namespace {

/// Memory traffic of a copy that is not made along with an update: read and written.
constexpr double kCopyPasses = 2;

}  // namespace

std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster, Learner& learner,
                                             JobSpec spec) {
    return std::make_unique<ServersJob>(cluster, learner, std::move(spec));
}

ServersJob::ServersJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : VirtualJob(cluster, learner, std::move(spec)),
      heads_(heads_of(this->spec())),
      workers_(at(workers())),
      scheduler_(session(), *this, *this, ServerScheduler::Dealing::kOnRelease, this->spec().seed,
                 this->spec().train.samples) {
    check_invariant(!this->spec().server_nodes.empty(), "a job with servers has one");
    for (const int node : this->spec().server_nodes) {
        servers_.emplace_back(cluster, node, cluster.profile().server_threads);
        pushed_.by_node[node] = pulled_.by_node[node] = 0;
    }
    for (const auto& [node, head] : heads_) {
        summing_.try_emplace(node, cluster, node, 1.0);
    }
}

bool ServersJob::stuck() const {
    bool idle = under_way_ == 0;
    for (const ServerLine& server : servers_) {
        idle = idle && server.idle();
    }
    for (const auto& [node, head] : summing_) {
        idle = idle && head.idle();
    }
    return idle;
}

void ServersJob::start_work() {
    scheduler_.begin();
    std::vector<Release> releases;
    for (int index = 0; index < workers(); ++index) {
        worker(index).free_since_s = now();
        releases.push_back(prepare(index, engine().version(), 0));
    }
    order_copies(std::move(releases));
    scheduler_.deal();
}

/// A worker will get the parameters of now.
ServersJob::Release ServersJob::prepare(int index, std::int64_t version, double lag) {
    Worker& w = worker(index);
    w.turn = ++turns_;
    w.version = version;
    w.parameters = parameters_for(index, lag);
    w.ready = false;
    if (w.pull != 0) {
        const double share = cancel(w.pull);
        carry(pulled_, node_of(index), share);
        lanes().used(index, 0, share * spec().workload.parameter_bytes);
        lanes().span(index, LaneSpan::Kind::kPull, w.free_since_s, now());
        w.free_since_s = now();
    }
    return {.worker = index, .turn = w.turn, .lag = lag};
}

/// Different parameters that a server makes: only a velocity looks ahead.
std::vector<double> ServersJob::lags_of(const std::vector<Release>& releases) const {
    std::vector<double> lags;
    for (const Release& release : releases) {
        lags.push_back(spec().optimizer == OptimizerKind::kSgd ? std::max(release.lag, 0.0) : 0);
    }
    std::sort(lags.begin(), lags.end());
    lags.erase(std::unique(lags.begin(), lags.end()), lags.end());
    return lags;
}

/// Every server works on its shard; who is released pulls meanwhile, once all have begun, and goes
/// on when all are done.
/// @param passes  over the shard  @param fixed_s  core seconds besides
/// @param missing  see ServerLine
ServersJob::UpdatePtr ServersJob::order(double passes, double fixed_s,
                                        std::vector<Release> releases,
                                        const std::shared_ptr<const int>& missing) {
    const double shard_bytes =
        spec().workload.parameter_bytes / static_cast<double>(servers_.size());
    const double core_s = passes * shard_bytes / cluster().profile().memory_bytes_per_s + fixed_s;
    auto update = std::make_shared<Update>(Update{.waiting = servers_.size(),
                                                  .working = servers_.size(),
                                                  .workers = std::move(releases),
                                                  .there = {}});
    const auto begun = [this, update] {
        if (--update->waiting > 0) {
            return;
        }
        for (const Release& release : std::exchange(update->workers, {})) {
            if (worker(release.worker).turn == release.turn) {
                pull(release.worker, update);
            }
        }
    };
    const auto done = [this, update] {
        if (--update->working > 0) {
            return;
        }
        for (const Release& release : std::exchange(update->there, {})) {
            pulled(release);
        }
    };
    for (ServerLine& server : servers_) {
        server.add({.core_s = core_s, .begun = begun, .done = done, .missing = missing});
    }
    return update;
}

/// Parameters as they are, of which somebody still gets a copy, cost nothing.
void ServersJob::order_copies(std::vector<Release> releases) {
    std::vector<double> lags = lags_of(releases);
    const bool plain = lags.front() == 0;
    const bool held = plain && !current_.expired();
    const auto copies = static_cast<double>(lags.size()) - (held ? 1 : 0);
    const UpdatePtr made = order(copies * kCopyPasses, 0, std::move(releases), nullptr);
    if (plain && !held) {
        current_ = made;
    }
}

/// @param share  of all parameters
void ServersJob::carry(Carried& carried, int node, double share) const {
    const double bytes = share * spec().workload.parameter_bytes;
    carried.all += bytes;
    if (const auto found = carried.by_node.find(node); found != carried.by_node.end()) {
        found->second += bytes;
    }
}

void ServersJob::pull(int index, const UpdatePtr& update) {
    Worker& w = worker(index);
    lanes().span(index, LaneSpan::Kind::kWait, w.free_since_s, now());
    w.record = {.wait_s = now() - w.free_since_s};
    w.free_since_s = now();
    const double bytes = spec().workload.parameter_bytes;
    ++under_way_;
    const Release release{.worker = index, .turn = w.turn};
    w.pull = cluster().gather(spec().server_nodes, node_of(index), bytes,
                              [this, release, bytes, update] {
                                  --under_way_;
                                  Worker& one = worker(release.worker);
                                  one.pull = 0;
                                  one.record.use.rx_bytes_s = rate(bytes, now() - one.free_since_s);
                                  carry(pulled_, node_of(release.worker), 1);
                                  lanes().used(release.worker, 0, bytes);
                                  if (update->working == 0) {
                                      pulled(release);
                                  } else {
                                      update->there.push_back(release);
                                  }
                              });
}

void ServersJob::pulled(const Release& release) {
    Worker& w = worker(release.worker);
    if (w.turn != release.turn) {
        return;
    }
    w.ready = true;
    const double took_s = now() - w.free_since_s;
    w.record.pull_s = std::min(took_s, in_alone_s(release.worker, spec().workload.parameter_bytes));
    w.record.wait_s += took_s - w.record.pull_s;
    lanes().span(release.worker, LaneSpan::Kind::kPull, w.free_since_s, now());
    w.free_since_s = now();
    start(release.worker);
}

void ServersJob::fired(const Fire& fire) {
    std::vector<Release> releases;
    releases.reserve(fire.releases.size());
    for (const Fire::Release& one : fire.releases) {
        releases.push_back(prepare(one.worker, fire.version, one.lag));
    }
    std::map<int, int> on_nodes;  // pushes
    int sums = static_cast<int>(fire.pushes.size());
    for (const FiredPush& push : fire.pushes) {
        const int index = push.ticket.id.worker;
        if (staged_.erase(push.ticket.lease) > 0) {
            sums += on_nodes[node_of(index)]++ == 0 ? 0 : -1;
        }
    }
    const std::vector<double> lags = lags_of(releases);
    const double passes = sums + update_passes(spec().optimizer) + static_cast<double>(lags.size());
    const auto missing = std::make_shared<int>(static_cast<int>(on_nodes.size()));
    const UpdatePtr made =
        order(passes, cluster().profile().update_s, std::move(releases), missing);
    current_ = !lags.empty() && lags.front() == 0 ? made : nullptr;
    for (const auto& [node, pushes] : on_nodes) {
        send_sum(node, pushes, missing);
    }
}

void ServersJob::released(const ReleaseOne& release) {
    releases_.push_back(prepare(release.worker, release.version, release.lag));
}

/// What servers are told one by one; here they hear of it at once.
void ServersJob::flush() {
    if (!releases_.empty()) {
        order_copies(std::exchange(releases_, {}));
    }
}

void ServersJob::interrupted(const Interrupt& interrupt) {
    give_up(interrupt.worker);
    released({.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
}

/// @return the share of it that was done
double ServersJob::cancel(ClusterWork& work) {
    if (work == 0) {
        return 0;
    }
    --under_way_;
    return 1 - cluster().cancel(std::exchange(work, 0));
}

/// What it computes. A push that has begun goes on to its end, and nobody looks at it.
void ServersJob::give_up(int index) {
    Worker& w = worker(index);
    check_invariant(w.group == nullptr || w.group->arrived == 0, "a group is not parted");
    if (w.compute != 0) {
        const double input_s = w.step_cost.cpu_core_s / w.step_cost.cpu_threads;
        const double done_s =
            cancel(w.compute) * (w.step_delay_s + input_s + w.step_cost.device_s) - w.step_delay_s;
        lanes().used(index, std::clamp(done_s, 0.0, input_s) * w.step_cost.cpu_threads, 0);
        lanes().span(index, LaneSpan::Kind::kLost, w.step_begun_s, now());
        w.free_since_s = now();
    } else if (w.push != 0) {
        lanes().span(index, LaneSpan::Kind::kLost, w.computed_at_s, now());
        w.free_since_s = now();
    }
    if (w.validating) {
        w.validating = false;
        validations_.erase(w.validation_work);
        learner().forget(w.validation_work);
    }
    w.computing = false;
    w.push = 0;
}

void ServersJob::came_back(const Lease& lease) {
    Worker& w = worker(lease.worker);
    staged_.erase(lease.id);
    if (w.lease == lease.id) {
        w.lease = 0;
        w.group = nullptr;
    }
}

void ServersJob::end_work() {
    for (int index = 0; index < workers(); ++index) {
        Worker& w = worker(index);
        carry(pulled_, node_of(index), cancel(w.pull));
        carry(pushed_, node_of(index), cancel(w.push));
        cancel(w.compute);
        if (w.group != nullptr) {
            cancel(w.group->averaging);
            w.group = nullptr;
        }
        w.parameters = nullptr;
        w.turn = ++turns_;
    }
    if (settling_ != 0) {
        --under_way_;
        queue().cancel(std::exchange(settling_, 0));
        arrivals_.clear();
    }
    for (const Learner::WorkId work : validations_) {
        learner().forget(work);
    }
    validations_.clear();
    for (ServerLine& server : servers_) {
        server.clear();
    }
    for (auto& [node, head] : summing_) {
        head.clear();
    }
}

void ServersJob::report_servers(SimulationResult& result) {
    const auto part = 1 / static_cast<double>(servers_.size());
    for (const ServerLine& server : servers_) {
        ServerUse use = server.use();
        use.rx_bytes = (pushed_.all - pushed_.by_node.at(use.node)) * part;
        use.tx_bytes = (pulled_.all - pulled_.by_node.at(use.node)) * part;
        result.servers.push_back(use);
    }
}

}  // namespace cohort
