#include "sim/job/servers_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job_servers.hpp"

// What the engine decides, and leases that the session deals.
namespace cohort {

std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster, Learner& learner,
                                             JobSpec spec) {
    return std::make_unique<ServersJob>(cluster, learner, std::move(spec));
}

ServersJob::ServersJob(VirtualCluster& on, Learner& model, JobSpec job)
    : VirtualJob(on, model, std::move(job)),
      servers_(std::make_unique<Servers>(*this)),
      scheduler_(session, *this, *this, ServerScheduler::Dealing::kOnRelease, spec.seed,
                 spec.train.samples) {
    check_invariant(!spec.server_nodes.empty(), "a job with servers has one");
    for (int index = 0; index < workers(); ++index) {
        workers_.emplace_back(*this, index);
    }
}

ServersJob::~ServersJob() = default;

bool ServersJob::stuck() const {
    return under_way_ == 0 && servers_->idle() &&
           std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.work == 0; });
}

void ServersJob::start_work() {
    scheduler_.begin();
    std::vector<Release> releases;
    for (int index = 0; index < workers(); ++index) {
        worker(index).free_since_s = now();
        releases.push_back(prepare(index, engine().version(), 0));
    }
    servers_->copy(std::move(releases));
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
        servers_->pulled(node_of(index), share);
        lanes.used(index, 0, share * spec.workload.parameter_bytes);
        lanes.span(index, LaneSpan::Kind::kPull, w.free_since_s, now());
        w.free_since_s = now();
    }
    return {.worker = index, .turn = w.turn, .lag = lag};
}

void ServersJob::pull(int index, const UpdatePtr& update) {
    Worker& w = worker(index);
    lanes.span(index, LaneSpan::Kind::kWait, w.free_since_s, now());
    w.record = {.wait_s = now() - w.free_since_s};
    w.free_since_s = now();
    const double bytes = spec.workload.parameter_bytes;
    ++under_way_;
    const Release release{.worker = index, .turn = w.turn};
    w.pull =
        cluster.gather(spec.server_nodes, node_of(index), bytes, [this, release, bytes, update] {
            --under_way_;
            Worker& one = worker(release.worker);
            one.pull = 0;
            one.record.use.rx_bytes_s = rate(bytes, now() - one.free_since_s);
            servers_->pulled(node_of(release.worker), 1);
            lanes.used(release.worker, 0, bytes);
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
    w.record.pull_s = std::min(took_s, alone_s(cluster.shares(place(release.worker)).rx));
    w.record.wait_s += took_s - w.record.pull_s;
    lanes.span(release.worker, LaneSpan::Kind::kPull, w.free_since_s, now());
    w.free_since_s = now();
    start(release.worker);
}

void ServersJob::fired(const Fire& fire) {
    std::vector<Release> releases;
    for (const Fire::Release& one : fire.releases) {
        releases.push_back(prepare(one.worker, fire.version, one.lag));
    }
    servers_->update(fire, std::move(releases));
}

/// What servers are told one by one; here they hear of it at once.
void ServersJob::flush() {
    if (!releases_.empty()) {
        servers_->copy(std::exchange(releases_, {}));
    }
}

void ServersJob::interrupt(const Interrupt& interrupt, const ReturnLease* /*lease*/) {
    give_up(interrupt.worker);
    release({.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
}

/// @return the share of it that was done
double ServersJob::cancel(ClusterWork& work) {
    if (work == 0) {
        return 0;
    }
    --under_way_;
    return 1 - cluster.cancel(std::exchange(work, 0));
}

/// What it computes. A push that has begun goes on to its end, and nobody looks at it.
void ServersJob::give_up(int index) {
    Worker& w = worker(index);
    check_invariant(w.group == nullptr || w.group->arrived == 0, "a group is not parted");
    if (w.work != 0) {
        const double input_s = w.current.cost.cpu_core_s / w.current.cost.cpu_threads;
        const double done_s =
            (1 - w.cancel()) * (w.current.delay_s + input_s + w.current.cost.device_s) -
            w.current.delay_s;
        lanes.used(index, std::clamp(done_s, 0.0, input_s) * w.current.cost.cpu_threads, 0);
        lanes.span(index, LaneSpan::Kind::kLost, w.current.begun_s, now());
        w.free_since_s = now();
    } else if (w.push != 0) {
        lanes.span(index, LaneSpan::Kind::kLost, w.computed_at_s, now());
        w.free_since_s = now();
    }
    if (w.validating) {
        w.validating = false;
        validations_.erase(w.validation_work);
        learner.forget(w.validation_work);
    }
    w.computing = false;
    w.push = 0;
}

void ServersJob::returned(const ReturnLease& lease) {
    servers_->unstage(lease.lease);
    Worker& w = worker(leases_out.at(lease.lease).worker);
    if (w.lease == lease.lease) {
        w.lease = 0;
        w.group = nullptr;
    }
    VirtualJob::returned(lease);
}

void ServersJob::end_work() {
    for (int index = 0; index < workers(); ++index) {
        Worker& w = worker(index);
        servers_->pulled(node_of(index), cancel(w.pull));
        servers_->pushed(node_of(index), cancel(w.push));
        (void)w.cancel();
        if (w.group != nullptr) {
            cancel(w.group->averaging);
            w.group = nullptr;
        }
        w.parameters = nullptr;
        w.turn = ++turns_;
    }
    if (settling_ != 0) {
        --under_way_;
        cluster.queue().cancel(std::exchange(settling_, 0));
        arrivals_.clear();
    }
    for (const Learner::WorkId work : validations_) {
        learner.forget(work);
    }
    validations_.clear();
    servers_->clear();
}

const SimulationResult& ServersJob::report() {
    servers_->report(result.servers);
    return VirtualJob::report();
}

/// Whether a lease's push stays on its node.
bool ServersJob::stages(int index) const {
    return servers_->sums(node_of(index)) && stages_pushes(session.engine().plan(), index);
}

/// Computing begins as soon as it is known what is to be computed on which parameters, on the cores
/// that are free.
void ServersJob::prepare(const std::vector<DealtLease>& leases) {
    for (const auto& [index, order] : leases) {
        Worker& w = worker(index);
        w.lease = add_lease(index, order).id;
        w.staged = order.staged;
    }
    for (const auto& [index, order] : leases) {
        const std::vector<std::int32_t>& members = order.work.group;
        if (!members.empty() && members.front() == index) {
            const auto group = std::make_shared<Group>();
            for (const int member : members) {
                group->members.push_back(member);
                group->nodes.push_back(node_of(member));
                worker(member).group = group;
            }
        }
    }
    for (const auto& [index, order] : leases) {
        start_learning(index);
    }
}

/// A group's first member starts for all.
void ServersJob::start_learning(int index) {
    const Worker& w = worker(index);
    if (w.group == nullptr) {
        VirtualLease& given = lease_of(index);
        given.computed = learner.start(job_of(given, w.parameters));
    } else if (w.group->members.front() == index) {
        std::vector<Learner::Job> jobs;
        for (const int member : w.group->members) {
            jobs.push_back(job_of(lease_of(member), worker(member).parameters));
        }
        const std::vector<Learner::WorkId> works = learner.start_group(jobs);
        for (std::size_t i = 0; i < works.size(); ++i) {
            lease_of(w.group->members[i]).computed = works[i];
        }
    }
}

void ServersJob::deal(const std::vector<DealtLease>& leases) {
    for (const auto& [index, order] : leases) {
        start(index);
    }
}

bool ServersJob::may_validate(int index) const {
    const Worker& w = workers_[at(index)];
    return !w.validation && !w.validating;
}

}  // namespace cohort
