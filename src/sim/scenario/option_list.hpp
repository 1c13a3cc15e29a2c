#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "cohort/sim/simulation.hpp"
#include "layers/optim/option_list.hpp"
#include "sched/modes/option_list.hpp"
#include "sim/scenario/trace.hpp"

// The list of SimulateOptions, see core/options.hpp.
namespace cohort {
namespace simulate_options {

inline std::vector<std::string> pattern_names() {
    std::vector<std::string> names;
    for (const PatternInfo& pattern : patterns()) {
        names.push_back(pattern.name);
    }
    return names;
}

template <class Options, class Visit>
void each_of_job(Options& o, const Visit& visit) {
    visit({"--data", "Dataset file (HDF5, see docs/data.md); required but with --no-train", "FILE"},
          o.data);
    visit({"--model",
           fmt::format("Network that learns: {}, or FILE.onnx", fmt::join(model_names(), ", ")),
           "NAME"},
          o.model);
    visit({"--init",
           "File of weights to start from, a model.h5 or FILE.safetensors; empty: they are drawn",
           "FILE"},
          o.init);
    visit({"--out", "Folder for result.h5; empty: none is written", "DIR"}, o.out);
    visit({"--overwrite", "Replace the result that --out holds"}, o.overwrite);
    visit({"--record-load",
           "The result holds what every iteration took and could use: for cohort predictor"},
          o.record_load);
    visit(
        {"--record-rates", "Measure whatever the mode what its plans achieve: for cohort chooser"},
        o.record_rates);
    visit({"--no-train", "Time only: gradients are not computed, nothing is learned"}, o.no_train);
}

template <class Options, class Visit>
void each_of_cluster(Options& o, const Visit& visit) {
    visit({"--workers", "Virtual workers"}, o.workers, kWorkersLimits);
    visit({"--servers", "Virtual parameter servers; 0: one with --arch servers"}, o.servers,
          kServersLimits);
    visit({"--nodes", "Nodes that the workers are spread over; 0: one per worker"}, o.nodes,
          kNodesLimits);
    visit({"--server-nodes",
           "Where servers are: shared with workers, spread evenly, or on nodes of their own"},
          o.server_nodes);
    visit({"--node-staging",
           "Servers: whether the gradients of a node's workers are summed there before they are "
           "sent; auto: on nodes with several workers and no server"},
          o.node_staging);
    each_shard_option(o, visit);
    each_wire_option(o, visit);
    visit({"--push-tree",
           "Servers: sum pushes over nodes on their way: off, auto (a tree by the predicted cards; "
           "parameters come down the same way where that is quicker), or groups of nodes whose "
           "first is the head, 0,1,2/3,4,5",
           "TREE"},
          o.push_tree);
    visit({"--profile",
           fmt::format("What nodes and workloads are like: {}, or a file (docs/profiles.md)",
                       fmt::join(shipped_profiles(), ", ")),
           "NAME"},
          o.profile);
    visit(
        {"--time-as", "Workload of the profile that sets times and bytes; empty: --model", "NAME"},
        o.time_as);
    visit({"--pattern",
           fmt::format("What slows the cluster down, with a strength or not (docs/patterns.md): {}",
                       fmt::join(pattern_names(), ", ")),
           "NAME[:STRENGTH]"},
          o.pattern);
    visit({"--trace", "A trace file (CSV) in place of a pattern", "FILE"}, o.trace);
    visit({"--pattern-seed", "Seed of what the pattern leaves to chance"}, o.pattern_seed,
          kSeedLimits);
}

template <class Options, class Visit>
void each_of_length(Options& o, const Visit& visit) {
    visit({"--samples", "Samples to train on; 0: one epoch"}, o.samples, kSamplesLimits);
    visit({"--target-accuracy", "End once the test accuracy reaches this; 0: never"},
          o.target_accuracy, kTargetLimits);
    visit({"--target-loss", "End once the test loss (of text per token) is as small; 0: never"},
          o.target_loss, kTargetLossLimits);
    visit({"--virtual-limit-s", "End at this time of the virtual clock; 0: no limit"},
          o.virtual_limit_s, kVirtualSecondsLimits);
}

template <class Options, class Visit>
void each_of_learning(Options& o, const Visit& visit) {
    visit({"--batch", "Samples per step and worker"}, o.batch, kBatchLimits);
    each_rate_option(o, visit);
    each_optimizer_option(o, visit);
    each_step_option(o, visit);
    visit({"--seed", "Seed of initial parameters, sample order and dropout"}, o.seed, kSeedLimits);
    visit({"--threads", "Threads that compute gradients; 0: all cores; changes no result"},
          o.threads, kThreadsLimits);
}

template <class Options, class Visit>
void each_of_reports(Options& o, const Visit& visit) {
    visit({"--measure-gradients",
           "Measure the gradients' noise scale also where no mode asks for it"},
          o.measure_gradients);
    visit({"--eval-every-samples",
           "Samples between evaluations on the test group; 0: once per epoch"},
          o.eval_every_samples, kSamplesLimits);
    visit({"--eval-samples",
           "Evaluate on so many of the test samples, the first ones, until the target is near; 0: "
           "on all"},
          o.eval_samples, kSamplesLimits);
    visit({"--eval-average",
           "Evaluate the running mean of the parameters too; its time constant in reference "
           "batches (workers x batch); 0: no"},
          o.eval_average, kEvalAverageLimits);
    visit({"--target-on",
           "Whose accuracy is to reach the target: that of the parameters, or that of their mean"},
          o.target_on);
}

}  // namespace simulate_options

template <class Visit>
void each_option(ConstOrNot<SimulateOptions> auto& options, const Visit& visit) {
    simulate_options::each_of_job(options, visit);
    simulate_options::each_of_cluster(options, visit);
    each_mode_option(options, visit);
    each_chooser_option(options, visit, {"last", "ewma", "episodes", "lstm", "auto", "oracle"});
    simulate_options::each_of_length(options, visit);
    simulate_options::each_of_learning(options, visit);
    simulate_options::each_of_reports(options, visit);
}

}  // namespace cohort
