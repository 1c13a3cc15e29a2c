#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/networks/network.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/sched/policy.hpp"
#include "cohort/sim/simulation.hpp"
#include "core/command_text.hpp"
#include "core/units.hpp"
#include "sched/plan/push_tree.hpp"
#include "sim/scenario/option_list.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// Workers times servers: each pair exchanges messages.
constexpr std::int64_t kMostPairs = std::int64_t{1} << 26;

void check_places(const SimulateOptions& o) {
    const auto pairs = std::int64_t{o.workers} * o.servers;
    require(pairs <= kMostPairs, "--workers, --servers",
            fmt::format("at most {} pairs of a worker and a server", kMostPairs),
            std::to_string(pairs));
    require_within(o.nodes, Limits<int>{.least = 0, .most = o.workers}, "--nodes");
    if (o.arch == Architecture::kRing) {
        require(o.servers == 0, "--servers", "0 with --arch ring", std::to_string(o.servers));
        require(o.shards == ShardSizes::kEqual, "--shards", "equal with --arch ring",
                std::string(word_of(o.shards)));
        require(o.server_nodes == ServerNodes::kShared, "--server-nodes",
                "nothing with --arch ring", std::string(word_of(o.server_nodes)));
        require(o.node_staging == NodeStaging::kAuto, "--node-staging", "nothing with --arch ring",
                std::string(word_of(o.node_staging)));
        require(!parse_push_tree(o.push_tree).on(), "--push-tree", "off with --arch ring",
                o.push_tree);
    }
}

/// @param o  resolved
void check_push_tree(const SimulateOptions& o) {
    const PushTreeChoice tree = parse_push_tree(o.push_tree);
    require(!tree.on() || o.shards == ShardSizes::kEqual, "--shards", "equal with --push-tree",
            std::string(word_of(o.shards)));
    const ClusterShape shape =
        spread_over_nodes(o.workers, o.nodes, o.servers, o.server_nodes == ServerNodes::kOwn, 0);
    std::vector<int> workers(static_cast<std::size_t>(shape.nodes), 0);
    for (const int node : shape.worker_nodes) {
        ++workers[static_cast<std::size_t>(node)];
    }
    (void)tree_of_groups(tree, workers);
}

/// Of all modes that may be in force.
std::vector<SyncPlan> all_plans(const SimulateOptions& o) {
    const ModeSetting setting = mode_setting(o);
    std::vector<SyncPlan> plans;
    for (const ScheduledMode& scheduled : o.modes) {
        for (SyncPlan& plan : plans_of_mode(scheduled.mode, setting)) {
            plans.push_back(std::move(plan));
        }
    }
    return plans;
}

void check_scenario(const SimulateOptions& o) {
    const bool healthy = o.pattern == SimulateOptions().pattern;
    require(o.trace.empty() || healthy, "--pattern, --trace", "one of them", "both");
    // One of each is enough to see whether the name and the strength can be used.
    const ClusterShape shape{
        .workers = 1, .nodes = 1, .worker_nodes = {0}, .server_nodes = {0}, .iteration_s = 1};
    (void)make_pattern(o.pattern, shape, o.pattern_seed);
}

/// What needs training, and what needs the time alone.
void check_training(const SimulateOptions& o) {
    require(o.target_on == TargetOn::kPlain || o.eval_average > 0, "--target-on",
            "plain without --eval-average", "average");
    require(o.target_accuracy == 0 || o.target_loss == 0, "--target-accuracy, --target-loss",
            "one of them", "both");
    (void)Schedule::parse(o.lr_schedule);
    if (!o.no_train) {
        require(!o.data.empty(), "--data", "a dataset file (see cohort import), or --no-train",
                "nothing");
        check_source(o);
        return;
    }
    require(o.target_accuracy == 0, "--target-accuracy", "nothing with --no-train",
            fmt::format("{}", o.target_accuracy));
    require(o.target_loss == 0, "--target-loss", "nothing with --no-train",
            fmt::format("{}", o.target_loss));
    require(o.eval_every_samples == 0 && o.eval_samples == 0 && o.eval_average == 0,
            "--eval-every-samples, --eval-samples, --eval-average", "nothing with --no-train",
            fmt::format("{}, {} and {}", o.eval_every_samples, o.eval_samples, o.eval_average));
    require(!o.data.empty() || o.samples > 0, "--samples",
            ">= 1 with --no-train and without --data", "nothing");
}

}  // namespace

SimulateOptions resolved(SimulateOptions options) {
    if (options.mode_text().empty()) {
        options.mode = default_mode(options.arch);
    }
    if (options.arch == Architecture::kServers) {
        options.servers = std::max(options.servers, 1);
    }
    options.nodes = options.nodes == 0 ? options.workers : options.nodes;
    options.time_as = options.time_as.empty() ? options.model : options.time_as;
    return options;
}

std::vector<std::pair<std::string, std::string>> option_values(const SimulateOptions& options) {
    std::vector<std::pair<std::string, std::string>> values;
    each_option(options, ListValues{values});
    return values;
}

std::string command_text(const SimulateOptions& options) {
    return command_text("cohort simulate", option_values(options), option_values({}),
                        {"out", "overwrite"});
}

ModeSetting mode_setting(const SimulateOptions& options) {
    return mode_setting(options,
                        {.live = std::vector<bool>(static_cast<std::size_t>(options.workers), true),
                         .batch = options.batch,
                         .workers_at_start = options.workers,
                         .own_seconds = {},
                         .chooser = static_cast<const ChooserOptions&>(options)});
}

bool judges_gradients(const SimulateOptions& options) {
    const std::vector<SyncPlan> plans = all_plans(options);
    return std::any_of(plans.begin(), plans.end(),
                       [](const SyncPlan& plan) { return plan.validate_every > 0; });
}

SimulateOptions checked(SimulateOptions options) {
    each_option(std::as_const(options), CheckValues());
    check_places(options);
    check_training(options);
    check_chooser_options(options);
    check_scenario(options);
    options = resolved(std::move(options));
    check_push_tree(options);
    understand_modes(options, mode_setting(options));
    (void)all_plans(options);
    const std::vector<std::string> shipped = shipped_profiles();
    if (std::find(shipped.begin(), shipped.end(), options.profile) != shipped.end()) {
        check_profile(options, load_profile(options.profile));
    }
    return options;
}

void check_profile(const SimulateOptions& options, const ClusterProfile& profile) {
    (void)profile.workload(options.time_as);
    const int on_a_node = (options.workers + options.nodes - 1) / options.nodes;
    require(on_a_node <= profile.devices_per_node, "--nodes",
            fmt::format("room for {} workers, {} a node with profile {}", options.workers,
                        profile.devices_per_node, profile.name),
            counted(options.nodes, "node"));
}

}  // namespace cohort
