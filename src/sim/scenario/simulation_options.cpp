// What can be asked of `cohort simulate`: names, texts and limits.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/policy.hpp"
#include "cohort/sim/simulation.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// Workers times servers: each pair exchanges messages.
constexpr std::int64_t kMostPairs = std::int64_t{1} << 26;

/// Calls visit(name, value) for every option, in the order of the command line's help.
template <class Options, class Visit>
void each_option(Options& o, const Visit& visit) {
    visit("data", o.data);
    visit("model", o.model);
    visit("out", o.out);
    visit("overwrite", o.overwrite);
    visit("record-load", o.record_load);
    visit("record-rates", o.record_rates);
    visit("no-train", o.no_train);
    visit("workers", o.workers);
    visit("servers", o.servers);
    visit("nodes", o.nodes);
    visit("server-nodes", o.server_nodes);
    visit("node-staging", o.node_staging);
    visit("profile", o.profile);
    visit("time-as", o.time_as);
    visit("pattern", o.pattern);
    visit("trace", o.trace);
    visit("pattern-seed", o.pattern_seed);
    visit("arch", o.arch);
    visit("mode", o.mode);
    visit("stale-momentum", o.stale_momentum);
    visit("mode-schedule", o.mode_schedule);
    visit("lr-rule", o.lr_rule);
    visit("noise-scale", o.noise_scale);
    visit("predictor", o.predictor);
    visit("predictor-file", o.predictor_file);
    visit("efficiency", o.efficiency);
    visit("efficiency-file", o.efficiency_file);
    visit("chooser-file", o.chooser_file);
    visit("measure-gradients", o.measure_gradients);
    visit("samples", o.samples);
    visit("target-accuracy", o.target_accuracy);
    visit("virtual-limit-s", o.virtual_limit_s);
    visit("batch", o.batch);
    visit("lr", o.lr);
    visit("lr-schedule", o.lr_schedule);
    visit("optimizer", o.optimizer);
    visit("momentum", o.momentum);
    visit("weight-decay", o.weight_decay);
    visit("seed", o.seed);
    visit("threads", o.threads);
    visit("eval-every-samples", o.eval_every_samples);
    visit("eval-samples", o.eval_samples);
    visit("eval-average", o.eval_average);
    visit("target-on", o.target_on);
}

/// A word as a shell reads it.
std::string shell_quoted(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
        return word;
    }
    std::string text = "'";
    for (const char c : word) {
        text += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return text + "'";
}

void require_one_of(const std::string& value, std::initializer_list<const char*> names,
                    const char* option) {
    const bool known = std::find(names.begin(), names.end(), value) != names.end();
    require(known, option, fmt::format("{}", fmt::join(names, " or ")), value);
}

void check_places(const SimulateOptions& o) {
    require_within(o.workers, kWorkersLimits, "--workers");
    require_within(o.servers, kServersLimits, "--servers");
    const auto pairs = std::int64_t{o.workers} * o.servers;
    require(pairs <= kMostPairs, "--workers, --servers",
            fmt::format("at most {} pairs of a worker and a server", kMostPairs),
            std::to_string(pairs));
    require_within(o.nodes, Limits<int>{.least = 0, .most = o.workers}, "--nodes");
    require_one_of(o.server_nodes, {"shared", "own"}, "--server-nodes");
    require_one_of(o.node_staging, {"auto", "on", "off"}, "--node-staging");
    const bool ring = parse_architecture(o.arch) == Architecture::kRing;
    require(!ring || o.servers == 0, "--servers", "0 with --arch ring", std::to_string(o.servers));
    require(!ring || o.server_nodes == SimulateOptions().server_nodes, "--server-nodes",
            "nothing with --arch ring", o.server_nodes);
    require(!ring || o.node_staging == SimulateOptions().node_staging, "--node-staging",
            "nothing with --arch ring", o.node_staging);
}

/// Of all modes that may be in force.
std::vector<SyncPlan> all_plans(const SimulateOptions& o) {
    std::vector<ScheduledMode> modes{{.samples = 0, .mode = resolved(o).mode}};
    if (!o.mode_schedule.empty()) {
        modes = parse_mode_schedule(o.mode_schedule);
    }
    const ModeSetting setting = mode_setting(o);
    std::vector<SyncPlan> plans;
    for (const ScheduledMode& scheduled : modes) {
        for (SyncPlan& plan : plans_of_mode(scheduled.mode, setting)) {
            plans.push_back(std::move(plan));
        }
    }
    return plans;
}

void check_modes(const SimulateOptions& o) {
    require(o.mode.empty() || o.mode_schedule.empty(), "--mode, --mode-schedule", "one of them",
            "both");
    (void)all_plans(o);
    require_within(o.noise_scale, kNoiseScaleLimits, "--noise-scale");
    require(o.noise_scale == 0 || o.lr_rule == "adascale", "--noise-scale", "--lr-rule adascale",
            o.lr_rule);
}

void check_scenario(const SimulateOptions& o) {
    const bool healthy = o.pattern == SimulateOptions().pattern;
    require(o.trace.empty() || healthy, "--pattern, --trace", "one of them", "both");
    // One of each is enough to see whether the name and the strength can be used.
    const ClusterShape shape{
        .workers = 1, .nodes = 1, .worker_nodes = {0}, .server_nodes = {0}, .iteration_s = 1};
    (void)make_pattern(o.pattern, shape, o.pattern_seed);
}

void check_learning(const SimulateOptions& o) {
    require_within(o.batch, kBatchLimits, "--batch");
    require_within(o.lr, kLearningRateLimits, "--lr");
    (void)Schedule::parse(o.lr_schedule);
    require_one_of(o.optimizer, {"sgd", "adamw"}, "--optimizer");
    require_within(o.momentum, kMomentumLimits, "--momentum");
    require_within(o.weight_decay, kWeightDecayLimits, "--weight-decay");
    require_within(o.threads, kThreadsLimits, "--threads");
}

void check_length(const SimulateOptions& o) {
    require_within(o.samples, kSamplesLimits, "--samples");
    require_within(o.virtual_limit_s, kVirtualSecondsLimits, "--virtual-limit-s");
    require_within(o.target_accuracy, kTargetLimits, "--target-accuracy");
    require_within(o.eval_every_samples, kSamplesLimits, "--eval-every-samples");
    require_within(o.eval_samples, kSamplesLimits, "--eval-samples");
    require_within(o.eval_average, kEvalAverageLimits, "--eval-average");
    require_one_of(o.target_on, {"plain", "average"}, "--target-on");
    require(o.target_on == "plain" || o.eval_average > 0, "--target-on",
            "plain without --eval-average", o.target_on);
}

/// What needs training, and what needs the time alone.
void check_training(const SimulateOptions& o) {
    if (!o.no_train) {
        require(!o.data.empty(), "--data", "a dataset file (see cohort import), or --no-train",
                "nothing");
        const std::vector<std::string> names = model_names();
        require(std::find(names.begin(), names.end(), o.model) != names.end(), "--model",
                fmt::format("{}", fmt::join(names, ", ")), o.model);
        return;
    }
    require(o.target_accuracy == 0, "--target-accuracy", "nothing with --no-train",
            fmt::format("{}", o.target_accuracy));
    require(o.eval_every_samples == 0 && o.eval_samples == 0 && o.eval_average == 0,
            "--eval-every-samples, --eval-samples, --eval-average", "nothing with --no-train",
            fmt::format("{}, {} and {}", o.eval_every_samples, o.eval_samples, o.eval_average));
    require(!o.data.empty() || o.samples > 0, "--samples",
            ">= 1 with --no-train and without --data", "nothing");
}

}  // namespace

SimulateOptions resolved(SimulateOptions options) {
    const Architecture architecture = parse_architecture(options.arch);
    if (options.mode.empty() && options.mode_schedule.empty()) {
        options.mode = default_mode(architecture);
    }
    if (architecture == Architecture::kServers) {
        options.servers = std::max(options.servers, 1);
    }
    options.nodes = options.nodes == 0 ? options.workers : options.nodes;
    options.time_as = options.time_as.empty() ? options.model : options.time_as;
    return options;
}

std::vector<std::pair<std::string, std::string>> option_values(const SimulateOptions& options) {
    std::vector<std::pair<std::string, std::string>> values;
    each_option(options, [&values](const char* name, const auto& value) {
        values.emplace_back(name, fmt::format("{}", value));
    });
    return values;
}

std::string command_text(const SimulateOptions& options) {
    const auto defaults = option_values({});
    const auto values = option_values(options);
    std::string text = "cohort simulate";
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto& [name, value] = values[i];
        if (value == defaults[i].second || name == "out" || name == "overwrite") {
            continue;
        }
        const bool flag = value == "true" && defaults[i].second == "false";
        text += fmt::format(" --{}{}", name, flag ? "" : " " + shell_quoted(value));
    }
    return text;
}

ModeSetting mode_setting(const SimulateOptions& options) {
    return {.architecture = parse_architecture(options.arch),
            .live = std::vector<bool>(static_cast<std::size_t>(options.workers), true),
            .batch = options.batch,
            .workers_at_start = options.workers,
            .stale_momentum = parse_stale_momentum(options.stale_momentum),
            .lr_rule = parse_lr_rule(options.lr_rule),
            .own_seconds = {},
            .chooser = chooser_options(options, {"oracle"})};
}

ModeChoice mode_choice(const SimulateOptions& options) {
    const SimulateOptions all = resolved(options);
    return {.mode = all.mode, .mode_schedule = all.mode_schedule};
}

bool judges_gradients(const SimulateOptions& options) {
    const std::vector<SyncPlan> plans = all_plans(options);
    return std::any_of(plans.begin(), plans.end(),
                       [](const SyncPlan& plan) { return plan.validate_every > 0; });
}

void check_options(const SimulateOptions& options) {
    check_places(options);
    check_learning(options);
    check_length(options);
    check_training(options);
    check_modes(options);
    check_scenario(options);
    const std::vector<std::string> shipped = shipped_profiles();
    if (std::find(shipped.begin(), shipped.end(), options.profile) != shipped.end()) {
        check_options(options, load_profile(options.profile));
    }
}

void check_options(const SimulateOptions& options, const ClusterProfile& profile) {
    const SimulateOptions all = resolved(options);
    (void)profile.workload(all.time_as);
    const int on_a_node = (all.workers + all.nodes - 1) / all.nodes;
    require(on_a_node <= profile.devices_per_node, "--nodes",
            fmt::format("room for {} workers, {} a node with profile {}", all.workers,
                        profile.devices_per_node, profile.name),
            fmt::format("{} node(s)", all.nodes));
}

}  // namespace cohort
