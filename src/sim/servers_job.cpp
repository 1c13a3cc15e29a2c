#include "servers_job.hpp"

#include "cohort/core/error.hpp"
#include "virtual_jobs.hpp"

// What servers do, and what the engine decides.
namespace cohort {
namespace {

/// Memory traffic of an update in shards, besides one per push and per released copy: parameters
/// and velocity are read and written (src/train/server_fire.cpp).
constexpr double kUpdatePasses = 4;
/// The same of an order without pushes: parameters are read.
constexpr double kCopyPasses = 1;

}  // namespace

std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster, Learner& learner,
                                             JobSpec spec) {
    return std::make_unique<ServersJob>(cluster, learner, std::move(spec));
}

ServersJob::ServersJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : VirtualJob(cluster, learner, std::move(spec)),
      workers_(at(workers())),
      validation_(this->spec().seed, this->spec().train.samples, this->spec().setting.batch) {
    check_invariant(!this->spec().server_nodes.empty(), "a job with servers has one");
    for (const int node : this->spec().server_nodes) {
        servers_.emplace_back(cluster, node, cluster.profile().server_threads);
    }
}

bool ServersJob::stuck() const {
    bool idle = under_way_ == 0;
    for (const ServerLine& server : servers_) {
        idle = idle && server.idle();
    }
    return idle;
}

void ServersJob::start_work() {
    validation_.set_every(engine().plan().validate_every);
    fence_ = engine().plan().group > 1;
    std::vector<Release> releases;
    for (int index = 0; index < workers(); ++index) {
        worker(index).free_since_s = now();
        releases.emplace_back(index, prepare(index, engine().version(), 0));
    }
    order(kCopyPasses, 0, std::move(releases));
}

/// A worker will get the parameters of now. @return its turn
std::uint64_t ServersJob::prepare(int index, std::int64_t version, double lag) {
    Worker& w = worker(index);
    w.turn = ++turns_;
    w.version = version;
    w.parameters = parameters_for(index, lag);
    w.ready = false;
    lanes().used(index, 0, cancel(w.pull) * spec().workload.parameter_bytes);
    if (!idle_.contains(index)) {
        wanting_.insert(index);
    }
    return w.turn;
}

/// Every server works on its shard; who is released may pull when all are done.
/// @param passes  over the shard, without those of the copies  @param fixed_s  core seconds besides
void ServersJob::order(double passes, double fixed_s, std::vector<Release> releases) {
    const ClusterProfile& profile = cluster().profile();
    const double shard_bytes =
        spec().workload.parameter_bytes / static_cast<double>(servers_.size());
    const double core_s =
        (passes + static_cast<double>(releases.size())) * shard_bytes / profile.memory_bytes_per_s +
        fixed_s;
    const auto all = std::make_shared<Releases>(
        Releases{.servers = servers_.size(), .workers = std::move(releases)});
    for (ServerLine& server : servers_) {
        server.add(core_s, [this, all] {
            if (--all->servers > 0) {
                return;
            }
            for (const auto& [index, turn] : all->workers) {
                if (worker(index).turn == turn) {
                    pull(index);
                }
            }
        });
    }
}

void ServersJob::pull(int index) {
    Worker& w = worker(index);
    lanes().span(index, LaneSpan::Kind::kWait, w.free_since_s, now());
    w.free_since_s = now();
    const double bytes = spec().workload.parameter_bytes;
    for (ServerLine& server : servers_) {
        server.sent(bytes / static_cast<double>(servers_.size()));
    }
    ++under_way_;
    w.pull = cluster().gather(spec().server_nodes, node_of(index), bytes, [this, index, bytes] {
        Worker& puller = worker(index);
        --under_way_;
        puller.pull = 0;
        puller.ready = true;
        lanes().span(index, LaneSpan::Kind::kPull, puller.free_since_s, now());
        lanes().used(index, 0, bytes);
        puller.free_since_s = now();
        start(index);
    });
}

void ServersJob::fired(const Fire& fire) {
    validation_.decided();
    std::vector<Release> releases;
    releases.reserve(fire.releases.size());
    for (const Fire::Release& one : fire.releases) {
        releases.emplace_back(one.worker, prepare(one.worker, fire.version, one.lag));
    }
    order(static_cast<double>(fire.pushes.size()) + kUpdatePasses, cluster().profile().update_s,
          std::move(releases));
}

void ServersJob::released(const ReleaseOne& release) {
    releases_.emplace_back(release.worker, prepare(release.worker, release.version, release.lag));
}

/// What servers are told one by one takes a pass each; here they hear of it at once.
void ServersJob::order_releases() {
    if (!releases_.empty()) {
        const auto passes = static_cast<double>(releases_.size()) * kCopyPasses;
        order(passes, 0, std::exchange(releases_, {}));
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
        lanes().used(index, cancel(w.compute) * w.step_cpu_core_s, 0);
        lanes().span(index, LaneSpan::Kind::kLost, w.step_begun_s, now());
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

void ServersJob::refused(const Refuse& /*refusal*/, const Lease& /*lease*/) {
    validation_.decided();
    fence_ = fence_ || engine().plan().group > 1;  // it is released before the others of its group
}

void ServersJob::came_back(const Lease& lease) {
    Worker& w = worker(lease.worker);
    if (w.lease == lease.id) {
        w.lease = 0;
        w.group = nullptr;
        --holding_;
    }
}

void ServersJob::end_work() {
    for (int index = 0; index < workers(); ++index) {
        Worker& w = worker(index);
        for (ClusterWork* work : {&w.pull, &w.compute, &w.push}) {
            cancel(*work);
        }
        if (w.group != nullptr) {
            cancel(w.group->averaging);
            w.group = nullptr;
        }
        w.parameters = nullptr;
        w.turn = ++turns_;
    }
    for (const Learner::WorkId work : validations_) {
        learner().forget(work);
    }
    validations_.clear();
    for (ServerLine& server : servers_) {
        server.clear();
    }
}

void ServersJob::report_servers(SimulationResult& result) {
    for (const ServerLine& server : servers_) {
        result.servers.push_back(server.use());
    }
}

}  // namespace cohort
