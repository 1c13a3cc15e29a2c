#include "jobs/cli/simulate_options.hpp"

#include <string>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/option_value.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

void declare_job(CLI::App& app, SimulateOptions& o) {
    value(app, "--data", o.data,
          "Dataset file (HDF5, see docs/data.md); required but with --no-train")
        ->type_name("FILE");
    value(app, "--model", o.model, "Network that learns: " + CLI::detail::join(model_names(), ", "))
        ->type_name("NAME");
    value(app, "--out", o.out, "Folder for result.h5; empty: none is written")->type_name("DIR");
    app.add_flag("--overwrite", o.overwrite, "Replace the result that --out holds");
    app.add_flag("--record-load", o.record_load,
                 "The result holds what every iteration took and could use: for cohort predictor");
    app.add_flag("--record-rates", o.record_rates,
                 "Measure whatever the mode what its plans achieve: for cohort chooser");
    app.add_flag("--no-train", o.no_train,
                 "Time only: gradients are not computed, nothing is learned");
}

std::string pattern_names() {
    std::vector<std::string> names;
    for (const PatternInfo& pattern : patterns()) {
        names.push_back(pattern.name);
    }
    return CLI::detail::join(names, ", ");
}

void declare_cluster(CLI::App& app, SimulateOptions& o) {
    value(app, "--workers", o.workers, "Virtual workers", kWorkersLimits);
    value(app, "--servers", o.servers, "Virtual parameter servers; 0: one with --arch servers",
          kServersLimits);
    value(app, "--nodes", o.nodes, "Nodes that the workers are spread over; 0: one per worker",
          kNodesLimits);
    value(app, "--server-nodes", o.server_nodes,
          "Where servers are: shared with workers, spread evenly, or on nodes of their own")
        ->check(CLI::IsMember({"shared", "own"}));
    value(app, "--node-staging", o.node_staging,
          "Servers: whether the gradients of a node's workers are summed there before they are "
          "sent; auto: on nodes with several workers and no server")
        ->check(CLI::IsMember({"auto", "on", "off"}));
    value(app, "--profile", o.profile,
          "What nodes and workloads are like: " + CLI::detail::join(shipped_profiles(), ", ") +
              ", or a file (docs/profiles.md)")
        ->type_name("NAME");
    value(app, "--time-as", o.time_as,
          "Workload of the profile that sets times and bytes; empty: --model")
        ->type_name("NAME");
    value(app, "--pattern", o.pattern,
          "What slows the cluster down, with a strength or not (docs/patterns.md): " +
              pattern_names())
        ->type_name("NAME[:STRENGTH]");
    value(app, "--trace", o.trace, "A trace file (CSV) in place of a pattern")->type_name("FILE");
    value(app, "--pattern-seed", o.pattern_seed, "Seed of what the pattern leaves to chance",
          kSeedLimits);
}

void declare_length(CLI::App& app, SimulateOptions& o) {
    value(app, "--samples", o.samples, "Samples to train on; 0: one epoch", kSamplesLimits);
    declare_target(app, o);
    value(app, "--virtual-limit-s", o.virtual_limit_s,
          "End at this time of the virtual clock; 0: no limit", kVirtualSecondsLimits);
}

void declare_reports(CLI::App& app, SimulateOptions& o) {
    app.add_flag("--measure-gradients", o.measure_gradients,
                 "Measure the gradients' noise scale and curvature also where no mode asks for it");
    value(app, "--eval-every-samples", o.eval_every_samples,
          "Samples between evaluations on the test group; 0: once per epoch", kSamplesLimits);
    value(app, "--eval-samples", o.eval_samples,
          "Evaluate on so many of the test samples, the first ones, until the target is near; 0: "
          "on all",
          kSamplesLimits);
    value(app, "--eval-average", o.eval_average,
          "Evaluate the running mean of the parameters too; its time constant in reference batches "
          "(workers x batch); 0: no",
          kEvalAverageLimits);
    value(app, "--target-on", o.target_on,
          "Whose accuracy is to reach the target: that of the parameters, or that of their mean")
        ->check(CLI::IsMember({"plain", "average"}));
}

}  // namespace

void declare_simulate_options(CLI::App& app, SimulateOptions& options) {
    declare_job(app, options);
    declare_cluster(app, options);
    declare_arch(app, options.arch);
    declare_modes(app, options);
    declare_choosers(app, options, {"last", "ewma", "episodes", "lstm", "auto", "oracle"});
    declare_length(app, options);
    declare_rate(app, options);
    declare_update_rule(app, options);
    declare_weight_decay(app, options);
    value(app, "--seed", options.seed, "Seed of initial parameters, sample order and dropout",
          kSeedLimits);
    value(app, "--threads", options.threads,
          "Threads that compute gradients; 0: all cores; changes no result", kThreadsLimits);
    declare_reports(app, options);
}

}  // namespace cohort
