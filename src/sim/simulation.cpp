// A run under the virtual clock: cluster, scenario, jobs and the loop that moves the clock.
#include "cohort/sim/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/system/launch_env.hpp"
#include "records/timeline/run_timeline.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sim/job/ideal_workers.hpp"
#include "sim/job/job_setup.hpp"
#include "sim/job/virtual_job.hpp"
#include "sim/result/observed.hpp"
#include "sim/scenario/oracle_predictor.hpp"

namespace cohort {
namespace {

/// Events between two looks at progress.
constexpr std::uint64_t kLook = 1000;
/// Updates of which a healthy iteration is the mean.
constexpr std::int64_t kHealthyUpdates = 4;

ClusterShape shape_of(const SimulateOptions& options, double iteration_s) {
    return spread_over_nodes(options.workers, options.nodes, options.servers,
                             options.server_nodes == ServerNodes::kOwn, iteration_s);
}

NodesOfJob nodes_of_job(const SimulateOptions& options) {
    ClusterShape shape = shape_of(options, 0);
    return {.workers = std::move(shape.worker_nodes), .servers = std::move(shape.server_nodes)};
}

/// A job that trains nothing and waits for all its workers.
JobSpec load_spec(const JobArrival& arrival, const JobSpec& first, int nodes) {
    JobSpec spec;
    spec.setting.live.assign(static_cast<std::size_t>(arrival.workers), true);
    spec.setting.batch = arrival.batch;
    spec.setting.workers_at_start = arrival.workers;
    spec.choice = waiting_for_all(spec.setting);
    for (int worker = 0; worker < arrival.workers; ++worker) {
        spec.worker_nodes.push_back((arrival.first_node + worker) % nodes);
    }
    for (std::int64_t server = 0; server < std::max(arrival.servers, 1); ++server) {
        const auto beside = server * arrival.workers / std::max(arrival.servers, 1);
        spec.server_nodes.push_back(spec.worker_nodes[static_cast<std::size_t>(beside)]);
    }
    spec.workload = first.workload;
    spec.telemetry = false;
    spec.budget_samples = arrival.workers * arrival.batch * arrival.iterations;
    spec.train.samples = spec.train.chunk_samples = spec.budget_samples;
    return spec;
}

/// With servers: of the last worker, alone; with a ring: of all, without anybody else.
double healthy_iteration(const JobSpec& job, const ClusterProfile& profile, int nodes) {
    EventQueue queue;
    VirtualCluster cluster(queue, profile, nodes, nullptr);
    Learner idle;
    JobSpec spec = job;
    spec.choice = waiting_for_all(spec.setting);
    spec.shards = ShardSizes::kEqual;
    spec.push_tree = {};
    if (!spec.server_nodes.empty()) {
        spec.worker_nodes = {spec.worker_nodes.back()};
        spec.setting.live = {true};
    }
    spec.setting.workers_at_start = spec.workers();
    spec.budget_samples = kHealthyUpdates * spec.setting.batch * spec.workers();
    spec.train.samples = spec.train.chunk_samples = spec.budget_samples;
    spec.eval_every_samples = 0;
    spec.lane_spans = 0;
    spec.telemetry = false;
    const std::unique_ptr<VirtualJob> alone = make_job(cluster, idle, std::move(spec));
    cluster.start();
    alone->begin();
    std::optional<double> first;
    while (!alone->over()) {
        check_invariant(queue.step(), "a job without stragglers comes to its end");
        if (!first && alone->session.counts().updates > 0) {
            first = queue.now();
        }
    }
    return (queue.now() - first.value_or(0)) / static_cast<double>(kHealthyUpdates - 1);
}

/// Jobs that share the nodes with the one that is looked at, as they arrive.
class Loads {
public:
    /// @param cluster, first outlive it; it is set up before the cluster starts
    Loads(VirtualCluster& cluster, const JobSpec& first) : cluster_(cluster), first_(first) {
        cluster_.on_arrival([this](const JobArrival& arrival) { add(arrival); });
    }

private:
    void add(const JobArrival& arrival) {
        if (arrival.workers < 1 || arrival.iterations < 1) {
            return;
        }
        std::erase_if(jobs_, [](const auto& load) { return load->over() && load->stuck(); });
        cluster_.forget_unused();
        jobs_.push_back(make_job(cluster_, idle_, load_spec(arrival, first_, cluster_.nodes())));
        jobs_.back()->begin();
    }

    VirtualCluster& cluster_;
    const JobSpec& first_;
    Learner idle_;
    std::vector<std::unique_ptr<VirtualJob>> jobs_;
};

/// What happened at a moment.
void draw_events(RunTimeline& timeline, const SimulationResult& result) {
    for (const SwitchReport& change : result.switches) {
        timeline.happened(change.train_seconds, change.same_mode() ? "regrouping" : "switch",
                          describe(change));
    }
    for (const DecisionRecord& decision : result.decisions) {
        timeline.happened(decision.seconds, "decision", describe(decision));
    }
    for (const StragglerEpisode& slow : result.stragglers) {
        timeline.happened(slow.begin_s, "straggler",
                          fmt::format("worker {} is slow: {}", slow.worker, word_of(slow.cause)));
    }
    for (const EvaluationPoint& test : result.evaluations) {
        timeline.happened(test.virtual_s, "evaluation", fmt::format("loss {:.4f}", test.loss));
    }
}

/// The cluster, the job that is looked at, and those that share the nodes with it.
class Simulation {
public:
    Simulation(const SimulateOptions& options, const ClusterProfile& profile, RunTimeline* timeline)
        : options_(options),
          profile_(profile),
          spec_(spec_of(options, profile, samples_of(options), nodes_of_job(options))),
          nodes_(shape_of(options, 0).nodes),
          healthy_s_(healthy_iteration(spec_, profile, nodes_)),
          learner_(options.no_train ? std::make_unique<Learner>()
                                    : make_learner(learner_options(options))),
          cluster_(queue_, profile_, nodes_, scenario()) {
        spec_.lane_spans = SimulationResult::kLaneSpans;
        spec_.predictor = [this] { return predictor(); };
        spec_.timeline = timeline;
        job_ = make_job(cluster_, *learner_, spec_);
    }

    SimulationResult run(const std::function<bool(const SimulationProgress&)>& progress) {
        cluster_.start();
        job_->begin();
        if (options_.virtual_limit_s > 0) {
            queue_.at(options_.virtual_limit_s, [this] { job_->end("time"); });
        }
        for (std::uint64_t look = 0; !job_->over(); ++look) {
            check_invariant(queue_.step() && !(look % kLook == 0 && job_->stuck() && !job_->over()),
                            "a job that is not over has something to do");
            if (progress && (look % kLook == 0 || news()) && report_progress(progress)) {
                job_->end("signal");
            }
        }
        if (progress && news()) {
            report_progress(progress);
        }
        return result([this, &progress] { return progress && report_progress(progress); });
    }

private:
    [[nodiscard]] std::unique_ptr<Scenario> scenario() const {
        const ClusterShape shape = shape_of(options_, healthy_s_);
        if (!options_.trace.empty()) {
            return read_scenario(options_.trace, shape, options_.pattern_seed);
        }
        return make_pattern(options_.pattern, shape, options_.pattern_seed);
    }

    /// The oracle reads the scenario beside the cluster.
    [[nodiscard]] std::unique_ptr<Predictor> predictor() const {
        const ChooserOptions& chooser = spec_.setting.chooser;
        Workload on_wire = spec_.workload;
        on_wire.parameter_bytes = spec_.wire_parameter_bytes();
        return chooser.predictor == kOraclePredictor
                   ? make_oracle_predictor(scenario(), shape_of(options_, healthy_s_), profile_,
                                           on_wire, options_.batch)
                   : make_run_predictor(chooser, options_.workers, options_.batch);
    }

    /// The same cluster with the same scenario and loads over the same time, without a job. None
    /// when that takes a thousand times the job's events: a job that waits for a worker with a
    /// delay of years has few events, and the other workers without waiting have billions.
    [[nodiscard]] std::optional<double> ideal_samples_s(double virtual_s,
                                                        const std::function<bool()>& stop) const {
        EventQueue queue;
        VirtualCluster cluster(queue, profile_, nodes_, scenario());
        const Loads loads(cluster, spec_);
        const std::uint64_t most = std::max<std::uint64_t>(1'000'000, 1000 * queue_.events());
        return cohort::ideal_samples_s(cluster, spec_, virtual_s, [&stop, &queue, most] {
            return stop() || queue.events() > most;
        });
    }

    [[nodiscard]] bool news() const {
        return job_->result.evaluations.size() > evaluations_told_ ||
               job_->result.switches.size() > switches_told_;
    }

    /// One call per new evaluation or switch, at least one. @return to be stopped
    bool report_progress(const std::function<bool(const SimulationProgress&)>& progress) {
        bool stop = false;
        do {
            SimulationProgress now{.virtual_s = queue_.now(),
                                   .samples_applied = job_->session.counts().samples_applied,
                                   .budget_samples = spec_.budget_samples,
                                   .events = queue_.events(),
                                   .evaluation = {},
                                   .change = {}};
            if (job_->result.evaluations.size() > evaluations_told_) {
                now.evaluation = job_->result.evaluations[evaluations_told_++];
            }
            if (job_->result.switches.size() > switches_told_) {
                now.change = job_->result.switches[switches_told_++];
            }
            stop = progress(now) || stop;
        } while (news());
        return stop;
    }

    /// @param stop  asked now and then: a result that lacks something is that of a stopped run
    SimulationResult result(const std::function<bool()>& stop) {
        SimulationResult result = job_->report();
        result.options = option_values(options_);
        result.events = queue_.events();
        result.healthy_iteration_s = healthy_s_;
        if (result.stop_reason != "signal") {
            bool stopped = false;
            result.ideal_samples_s = ideal_samples_s(
                result.virtual_s, [&stop, &stopped] { return stopped = stopped || stop(); });
            result.stop_reason = stopped ? "signal" : result.stop_reason;
        }
        result.engine_core_s = learner_->engine_core_s();
        result.threads = options_.threads;
        result.samples_computed = learner_->samples_computed();
        result.buffer_bytes = learner_->buffer_bytes_most();
        return result;
    }

    SimulateOptions options_;
    ClusterProfile profile_;
    JobSpec spec_;
    int nodes_;
    double healthy_s_;
    EventQueue queue_;
    std::unique_ptr<Learner> learner_;
    VirtualCluster cluster_;
    std::unique_ptr<VirtualJob> job_;
    Loads loads_{cluster_, spec_};
    std::size_t evaluations_told_ = 0;
    std::size_t switches_told_ = 0;
};

/// @param timeline  may be null
SimulationResult run_simulation(const SimulateOptions& options,
                                const std::function<bool(const SimulationProgress&)>& progress,
                                RunTimeline* timeline) {
    SimulateOptions all = checked(options);
    const ClusterProfile profile = load_profile(all.profile);
    check_profile(all, profile);
    if (all.threads == 0) {
        all.threads = read_launch_env().cores;
    }
    SimulationResult result = Simulation(all, profile, timeline).run(progress);
    result.command = command_text(options);
    return result;
}

}  // namespace

SimulationResult simulate(const SimulateOptions& options,
                          const std::function<bool(const SimulationProgress&)>& progress) {
    return run_simulation(options, progress, nullptr);
}

SimulationResult simulate(const SimulateOptions& options,
                          const std::function<bool(const SimulationProgress&)>& progress,
                          std::string& timeline) {
    const SimulateOptions all = checked(options);
    RunTimeline drawn(all.workers, all.servers);
    SimulationResult result = run_simulation(options, progress, &drawn);
    draw_events(drawn, result);
    timeline = drawn.timeline().json();
    return result;
}

}  // namespace cohort
