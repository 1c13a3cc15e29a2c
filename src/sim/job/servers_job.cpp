#include "sim/job/servers_job.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job_servers.hpp"
#include "sim/job/servers_job_shards.hpp"
#include "sim/job/servers_job_work.hpp"

// What the engine decides, and leases that the session deals.
namespace cohort {

std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster, Learner& learner,
                                             JobSpec spec) {
    return std::make_unique<ServersJob>(cluster, learner, std::move(spec));
}

ServersJob::ServersJob(VirtualCluster& on, Learner& model, JobSpec job)
    : VirtualJob(on, model, std::move(job)),
      transfers_(*this),
      servers_(std::make_unique<Servers>(*this)),
      shards_(std::make_unique<Shards>(*this)),
      scheduler_(session, *this, *this, ServerScheduler::Dealing::kOnRelease, spec.seed,
                 spec.train.samples),
      validations_(std::make_unique<Validations>(learner)),
      arrivals_(std::make_unique<Arrivals>(*this)) {
    check_invariant(!spec.server_nodes.empty(), "a job with servers has one");
    for (int index = 0; index < workers(); ++index) {
        workers_.emplace_back(*this, index);
    }
}

ServersJob::~ServersJob() = default;

ServersJob::Worker& ServersJob::worker(int index) {
    return workers_[at(index)];
}

bool ServersJob::stuck() const {
    return transfers_.idle() && arrivals_->empty() && servers_->idle() &&
           std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.work == 0; });
}

void ServersJob::start_work() {
    shards_->begin();
    scheduler_.begin();
    std::vector<Release> releases;
    for (int index = 0; index < workers(); ++index) {
        worker(index).free_since_s = now();
        releases.push_back(worker(index).release(engine().version(), 0));
    }
    servers_->copy(std::move(releases));
    scheduler_.deal();
}

void ServersJob::fired(const Fire& fire) {
    std::vector<Release> releases;
    for (const Fire::Release& one : fire.releases) {
        releases.push_back(worker(one.worker).release(fire.version, one.lag));
    }
    servers_->update(fire, std::move(releases));
}

void ServersJob::release(const ReleaseOne& one) {
    releases_.push_back(worker(one.worker).release(one.version, one.lag));
}

/// What servers are told one by one; here they hear of it at once.
void ServersJob::flush() {
    if (!releases_.empty()) {
        servers_->copy(std::exchange(releases_, {}));
    }
}

void ServersJob::interrupt(const Interrupt& interrupt, const ReturnLease* /*lease*/) {
    worker(interrupt.worker).give_up();
    release({.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
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

void ServersJob::complete(int index) {
    const IterationEnds::End end = worker(index).complete();
    (void)scheduler_.arrived(index);
    scheduler_.push(iteration_ends_.pushed(end));
    if (!stopping() && shards_->updated()) {
        scheduler_.move();
    }
    happened();
}

void ServersJob::installing(const SyncPlan& plan) {
    log.add(EventLog::Kind::kPlan, now(), plan.id);
    shards_->restart();
}

/// What workers measured of transfers is of the servers' earlier parts.
void ServersJob::move_shards() {
    shards_->move([this] {
        if (session.load() != nullptr) {
            session.load()->forget_times();
        }
        scheduler_.moved();
        happened();
    });
}

void ServersJob::end_work() {
    shards_->clear();
    for (Worker& worker : workers_) {
        worker.end();
    }
    arrivals_->clear();
    validations_->clear();
    servers_->clear();
    scheduler_.effects().carry_out(engine().stop());
}

const SimulationResult& ServersJob::report() {
    for (std::size_t server = 0; server < spec.server_nodes.size(); ++server) {
        result.servers.push_back(servers_->use(server));
    }
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
        worker(index).deal(order);
    }
    for (const auto& [index, order] : leases) {
        const std::vector<std::int32_t>& members = order.work.group;
        if (!members.empty() && members.front() == index) {
            const auto group = std::make_shared<Group>(*this, members);
            for (const int member : members) {
                worker(member).group = group;
            }
        }
    }
    for (const auto& [index, order] : leases) {
        worker(index).start_learning();
    }
}

void ServersJob::deal(const std::vector<DealtLease>& leases) {
    for (const auto& [index, order] : leases) {
        worker(index).start();
    }
}

bool ServersJob::may_validate(int index) const {
    const Worker& w = workers_[at(index)];
    return !w.validation && w.validating == 0;
}

void ServersJob::deal_validation(const ValidationSampler::Dealt& lease) {
    worker(lease.worker).validation = lease;
}

}  // namespace cohort
