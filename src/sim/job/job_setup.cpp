#include "sim/job/job_setup.hpp"

#include <utility>

#include "cohort/data/dataset.hpp"
#include "cohort/networks/network.hpp"
#include "cohort/optim/learning_options.hpp"
#include "cohort/sched/job_limits.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sched/recorded/weights_file.hpp"
#include "sched/session/model_input.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {
namespace {

/// Of the network that learns; 0: none does.
double profiled_flops(const SimulateOptions& options, const SampleSetInfo& info) {
    return options.no_train ? 0
                            : make_graph(options, model_input(info)).training_flops_per_sample();
}

/// For choosers.
JobFacts job_facts(const JobSpec& spec, const OptimizerOptions& optimizer,
                   double flops_per_sample) {
    return {.parameters = spec.workload.parameter_bytes / static_cast<double>(sizeof(float)),
            .parameter_bytes = spec.wire_parameter_bytes(),
            .flops_per_sample = flops_per_sample,
            .learning_rate = spec.lr,
            .momentum = momentum_of(optimizer),
            .local_steps = flops_per_sample > 0 && optimizer.kind == OptimizerKind::kSgd};
}

}  // namespace

SampleSetInfo samples_of(const SimulateOptions& options) {
    if (!options.data.empty()) {
        Hdf5Thread hdf5;
        SampleSetInfo info = open_dataset(options.data, "train", hdf5)->info();
        require_batch(options.batch, info.samples, options.data);
        return info;
    }
    SampleSetInfo info;
    info.samples = options.samples;
    info.chunk_samples = options.samples;
    return info;
}

JobSpec spec_of(const SimulateOptions& options, const ClusterProfile& profile,
                const SampleSetInfo& train, NodesOfJob nodes) {
    require_target_of(train, options.target_accuracy);
    JobSpec spec;
    spec.choice.modes = options.modes;
    spec.setting = mode_setting(options);
    spec.setting.chooser.rate_weights = load_rate_weights(options.chooser_file);
    if (!options.predictor_file.empty()) {  // a bad one is told before anything runs
        (void)load_predictor(options.predictor_file);
    }
    spec.worker_nodes = std::move(nodes.workers);
    spec.server_nodes = std::move(nodes.servers);
    spec.workload = profile.workload(options.time_as);
    spec.train = train;
    spec.optimizer = options.optimizer;
    spec.budget_samples = options.samples > 0 ? options.samples : spec.train.samples;
    spec.lr = options.lr;
    const Schedule schedule = Schedule::parse(options.lr_schedule);
    spec.schedule = schedule.needs_end() ? schedule.with_end(spec.budget_samples) : schedule;
    spec.clip_norm = options.clip_norm;
    spec.noise_scale = options.noise_scale;
    spec.measure_gradients = options.measure_gradients;
    spec.seed = options.seed;
    spec.node_staging = options.node_staging;
    spec.shards = options.shards;
    spec.wire = options.wire;
    spec.push_tree = parse_push_tree(options.push_tree);
    spec.rebalance_servers =
        spec.push_tree.on() ? RebalanceServers::kOff : options.rebalance_servers;
    if (!options.no_train) {
        spec.eval_every_samples =
            options.eval_every_samples > 0 ? options.eval_every_samples : spec.train.samples;
    }
    spec.eval_samples = options.eval_samples;
    spec.eval_average = options.eval_average > 0;
    spec.target_on_average = options.target_on == TargetOn::kAverage;
    spec.target_accuracy = options.target_accuracy;
    spec.target_loss = options.target_loss;
    spec.setting.job =
        job_facts(spec, optimizer_options(options), profiled_flops(options, spec.train));
    spec.records = options.record_load ? SimulationResult::kRecords : 0;
    return spec;
}

LearnerOptions learner_options(const SimulateOptions& options) {
    return {.data = options.data,
            .network = options,
            .optimizer = options.optimizer,
            .momentum = options.momentum,
            .weight_decay = options.weight_decay,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .epsilon = options.epsilon,
            .clip_norm = options.clip_norm,
            .average_samples =
                options.eval_average * static_cast<double>(options.batch * options.workers),
            .wire = options.wire,
            .pulls = options.arch == Architecture::kServers,
            .seed = options.seed,
            .threads = options.threads};
}

ModeChoice waiting_for_all(const ModeSetting& setting) {
    return {.modes = {{.mode = parse_mode(default_mode(setting.architecture), setting)}}};
}

std::unique_ptr<VirtualJob> make_job(VirtualCluster& cluster, Learner& learner, JobSpec spec) {
    return spec.server_nodes.empty() ? make_ring_job(cluster, learner, std::move(spec))
                                     : make_servers_job(cluster, learner, std::move(spec));
}

}  // namespace cohort
