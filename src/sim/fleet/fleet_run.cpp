#include "sim/fleet/fleet_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/scores.hpp"
#include "core/system/launch_env.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sim/learner/learner_pool.hpp"

namespace cohort {
namespace {

/// Events between two looks at progress and at jobs that are stuck.
constexpr std::uint64_t kEventsPerLook = 1000;

/// The number of a job as a client of the queue, whose 0 is nobody.
int client_of(std::size_t job) {
    return static_cast<int>(job) + 1;
}

/// What the job itself knows at its end.
void keep(FleetJobResult& kept, const SimulationResult& found) {
    kept.end_s = found.virtual_s;
    kept.target_s = found.tta_virtual_s;
    kept.samples = found.samples_applied;
    kept.updates = found.updates;
    kept.switches = std::ranges::count_if(
        found.switches, [](const SwitchReport& change) { return !change.same_mode(); });
    kept.accuracy = found.accuracy.value_or(r_squared(found.loss));
    kept.busy_s = std::accumulate(found.worker_busy_s.begin(), found.worker_busy_s.end(), 0.0);
    kept.wait_s = std::accumulate(found.worker_wait_s.begin(), found.worker_wait_s.end(), 0.0);
    kept.digest = found.digest;
    if (found.stop_reason == "diverged") {
        kept.state = FleetJobState::kFailed;
        kept.error = "training diverged: too many gradients were not finite";
    } else if (found.stop_reason == "signal") {
        kept.state = FleetJobState::kStopped;
    } else {
        kept.state = kept.target_s ? FleetJobState::kTarget : FleetJobState::kBudget;
    }
}

}  // namespace

FleetJobResult planned(const FleetJob& job) {
    const SimulateOptions& o = job.options;
    return {.name = job.name,
            .workload = o.time_as,
            .model = o.no_train ? "" : o.model,
            .arch = std::string(word_of(o.arch)),
            .mode = o.mode_text(),
            .workers = o.workers,
            .servers = o.servers,
            .seed = o.seed,
            .target_accuracy = o.target_accuracy,
            .target_loss = o.target_loss,
            .arrival_s = job.arrival_s};
}

FleetParts::FleetParts(const FleetPlan& plan) : plan_(plan), profile_(load_profile(plan.profile)) {
    std::map<std::string, SampleSetInfo> known;
    for (std::size_t job = 0; job < plan.jobs.size(); ++job) {
        const SimulateOptions& options = plan.jobs[job].options;
        try {
            if (options.data.empty()) {
                samples_.push_back(samples_of(options));
            } else {
                if (!known.contains(options.data)) {
                    known[options.data] = samples_of(options);
                }
                samples_.push_back(known[options.data]);
                require_batch(options.batch, samples_.back().samples, options.data);
            }
            (void)spec(job,
                       {.workers = std::vector<int>(static_cast<std::size_t>(options.workers), 0),
                        .servers = {}});
        } catch (const UsageError& error) {
            throw UsageError(fmt::format("[{}] {}", plan.jobs[job].place, error.what()));
        } catch (const ShapeError& error) {
            throw UsageError(fmt::format("[{}] {}", plan.jobs[job].place, error.what()));
        } catch (const FileError& error) {
            throw FileError(fmt::format("[{}] {}", plan.jobs[job].place, error.what()));
        }
    }
}

JobSpec FleetParts::spec(std::size_t job, NodesOfJob nodes) const {
    const SimulateOptions& options = plan_.jobs[job].options;
    JobSpec spec = spec_of(options, profile_, samples_[job], std::move(nodes));
    spec.predictor = [chooser = spec.setting.chooser, workers = options.workers,
                      batch = options.batch] {
        return make_run_predictor(chooser, workers, batch);
    };
    return spec;
}

std::unique_ptr<Learner> FleetParts::learner(std::size_t job) {
    const SimulateOptions& options = plan_.jobs[job].options;
    if (options.no_train) {
        return std::make_unique<Learner>();
    }
    if (resources_ == nullptr) {
        const int threads = plan_.threads > 0 ? plan_.threads : read_launch_env().cores;
        resources_ = std::make_unique<LearnerResources>(threads);
    }
    return make_learner(learner_options(options), *resources_);
}

FleetRun::FleetRun(const FleetPlan& plan, const FleetParts& parts, MakeLearner learner)
    : plan_(plan),
      parts_(parts),
      make_learner_(std::move(learner)),
      room_(plan, parts.profile(), cluster_),
      cluster_(queue_, parts.profile(), plan.nodes, nullptr, &room_.weights()),
      waiting_(plan.nodes, plan.devices_per_node),
      meter_(cluster_, plan.devices_per_node) {
    for (const FleetJob& job : plan.jobs) {
        result_.jobs.push_back(planned(job));
    }
    state_.jobs = plan.jobs.size();
}

FleetResult FleetRun::run(const std::function<bool(const FleetProgress&)>& progress) {
    cluster_.start();
    for (std::size_t job = 0; job < plan_.jobs.size(); ++job) {
        queue_.at(plan_.jobs[job].arrival_s, [this, job] { arrive(job); });
    }
    while (state_.over < state_.jobs && !result_.stopped) {
        const bool goes_on = step();
        const bool look = queue_.events() % kEventsPerLook == 0;
        if (look || !goes_on) {
            check_invariant(goes_on || !active_.empty(), "a job that waits starts some time");
            fail_stuck(!goes_on);
        }
        meter_.look();
        room_.review_if_due();
        state_.virtual_s = queue_.now();
        state_.events = queue_.events();
        state_.running = state_.arrived - waiting_.waiting() - state_.over;
        bool wanted = true;
        for (const std::size_t job : std::exchange(news_, {})) {
            state_.ended = &result_.jobs[job];
            wanted = !(progress && progress(state_)) && wanted;
        }
        state_.ended = nullptr;
        if (!wanted || (look && progress && progress(state_))) {
            stop();
        }
    }
    return result();
}

void FleetRun::arrive(std::size_t job) {
    ++state_.arrived;
    waiting_.submit(static_cast<int>(job), plan_.jobs[job].options.workers);
    start_waiting();
}

void FleetRun::start_waiting() {
    std::erase_if(active_,
                  [](const auto& entry) { return entry.second.over && entry.second.job->stuck(); });
    while (const std::optional<FleetQueue::Start> next =
               waiting_.next([this](int job) { return left_s(job); })) {
        start(static_cast<std::size_t>(next->job), next->worker_nodes);
    }
    cluster_.forget_unused();
}

double FleetRun::left_s(int index) const {
    const auto job = static_cast<std::size_t>(index);
    const auto found = active_.find(job);
    const VirtualJob* const running = found == active_.end() ? nullptr : found->second.job.get();
    if (running == nullptr || running->session.counts().samples_applied == 0) {
        return std::numeric_limits<double>::infinity();  // nothing is known of its pace
    }
    const auto done = static_cast<double>(running->session.counts().samples_applied);
    const double left = static_cast<double>(running->spec.budget_samples) - done;
    return left * (queue_.now() - *result_.jobs[job].start_s) / done;
}

void FleetRun::start(std::size_t job, const std::vector<int>& worker_nodes) {
    FleetJobResult& kept = result_.jobs[job];
    kept.start_s = queue_.now();
    kept.worker_nodes = worker_nodes;
    meter_.hold(worker_nodes, 1);
    queue_.act_for(client_of(job));
    try {
        Active& active = active_[job];
        JobSpec spec = parts_.spec(job, {.workers = worker_nodes, .servers = {}});
        kept.server_nodes = spec.server_nodes = room_.place(spec, plan_.jobs[job].options.servers);
        spec.setting.admits = [this, job](const SyncPlan& wanted, double worth) {
            return room_.admits(job, wanted, worth);
        };
        active.learner = make_learner_(job);
        active.job = make_job(cluster_, *active.learner, std::move(spec));
        active.job->begin();
        room_.start(job, *active.job, client_of(job));
    } catch (const std::exception& error) {
        fail(job, error.what());
    }
    queue_.act_for(0);
}

bool FleetRun::step() {
    try {
        if (!queue_.step()) {
            return false;
        }
    } catch (const std::exception& error) {
        if (queue_.client() == 0) {
            throw;
        }
        fail(static_cast<std::size_t>(queue_.client() - 1), error.what());
        start_waiting();
        return true;
    }
    if (queue_.client() > 0) {
        end_if_over(static_cast<std::size_t>(queue_.client() - 1));
    }
    return true;
}

void FleetRun::end_if_over(std::size_t job) {
    const auto found = active_.find(job);
    if (found == active_.end() || found->second.over) {
        return;
    }
    if (!found->second.job->over()) {
        room_.look(job);
        return;
    }
    found->second.over = true;
    keep(result_.jobs[job], found->second.job->report());
    leave(job);
    start_waiting();
}

void FleetRun::fail_stuck(bool all) {
    std::vector<std::size_t> stuck;
    for (const auto& [job, active] : active_) {
        if (!active.over && (all || active.job->stuck())) {
            stuck.push_back(job);
        }
    }
    for (const std::size_t job : stuck) {
        fail(job, "internal error: the job waits, but nothing of it is under way");
    }
    if (!stuck.empty()) {
        start_waiting();
    }
}

void FleetRun::fail(std::size_t job, const std::string& why) {
    FleetJobResult& kept = result_.jobs[job];
    kept.state = FleetJobState::kFailed;
    kept.error = why;
    kept.end_s = queue_.now();
    cluster_.cancel_all(client_of(job));
    if (const Active& active = active_.at(job); active.job != nullptr) {
        kept.samples = active.job->session.counts().samples_applied;
        kept.updates = active.job->session.counts().updates;
    }
    active_.erase(job);
    leave(job);
}

void FleetRun::leave(std::size_t job) {
    const FleetJobResult& kept = result_.jobs[job];
    waiting_.finish(static_cast<int>(job));
    room_.end(job);
    meter_.hold(kept.worker_nodes, -1);
    ++state_.over;
    state_.failed += kept.state == FleetJobState::kFailed ? 1 : 0;
    news_.push_back(job);
    result_.makespan_s = queue_.now();
}

void FleetRun::stop() {
    result_.stopped = true;
    for (auto& [job, active] : active_) {
        if (!active.over) {
            queue_.act_for(client_of(job));
            active.job->end("signal");
            active.over = true;
            keep(result_.jobs[job], active.job->report());
        }
    }
    result_.makespan_s = queue_.now();
}

FleetResult FleetRun::result() {
    result_.label = plan_.label;
    result_.file = plan_.file;
    result_.settings = plan_.settings;
    result_.nodes = plan_.nodes;
    result_.devices_per_node = plan_.devices_per_node;
    result_.seed = plan_.seed;
    result_.use = meter_.points();
    result_.events = queue_.events();
    room_.report(result_);
    EventLog all;
    for (const FleetJobResult& job : result_.jobs) {
        all.mix(static_cast<std::uint64_t>(job.state));
        all.mix(job.start_s.value_or(-1));
        all.mix(job.end_s.value_or(-1));
        all.mix(job.digest);
    }
    result_.digest = all.digest();
    return std::move(result_);
}

FleetResult run_fleet(const FleetPlan& plan,
                      const std::function<bool(const FleetProgress&)>& progress) {
    FleetParts parts(plan);
    FleetResult result =
        FleetRun(plan, parts, [&](std::size_t job) { return parts.learner(job); }).run(progress);
    if (plan.alone) {
        add_paces_alone(result, plan, parts, progress);
    }
    return result;
}

}  // namespace cohort
