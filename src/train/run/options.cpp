#include "cohort/train/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/sched/policy.hpp"
#include "core/units.hpp"
#include "sched/plan/push_tree.hpp"
#include "train/faults/injection.hpp"
#include "train/run/option_list.hpp"
#include "train/run/sleep_compute.hpp"

namespace cohort {
namespace {

/// Fills in the modes and checks their plans.
void check_modes(TrainOptions& options, int workers) {
    const ModeSetting setting = mode_setting(options, workers);
    understand_modes(options, setting);
    for (const ScheduledMode& scheduled : options.modes) {
        for (const SyncPlan& plan : plans_of_mode(scheduled.mode, setting)) {
            require(!options.deterministic || is_synchronous(plan), "--deterministic",
                    "a mode in which every update waits for all workers", plan.name);
        }
    }
    check_chooser_options(options);
    require(!options.record_rates || !options.deterministic, "--record-rates",
            "a run that looks at times", "--deterministic");
}

/// The last rank of each role must exist, and the mode must fit.
void check_ranks(TrainOptions& options, int world_size) {
    require(options.arch != Architecture::kRing || options.servers == 0, "--servers",
            "0 with --arch ring", std::to_string(options.servers));
    require(options.arch != Architecture::kRing || options.shards == ShardSizes::kEqual, "--shards",
            "equal with --arch ring", std::string(word_of(options.shards)));
    const int servers = options.servers = server_ranks(options);
    if (world_size < servers + 1) {
        fail<UsageError>({.where = fmt::format("--arch {}", word_of(options.arch)),
                          .what = "too few ranks",
                          .expected = counted(servers, "server") + " and at least one worker",
                          .got = counted(world_size, "rank"),
                          .hint = fmt::format("mpirun -n {}, or --arch ring", servers + 2)});
    }
    check_modes(options, world_size - servers);
    for (const Injection& injection : parse_injections(options.inject)) {
        require(options.resume || injection.rank < world_size, "--inject",
                fmt::format("ranks 0 to {}", world_size - 1), std::to_string(injection.rank));
        const bool computes = injection.cpu != 1 || injection.delay_s > 0 || injection.sample_s > 0;
        require(injection.rank >= servers || !computes, "--inject",
                fmt::format("cpu, delay and sample for workers, ranks {} and up", servers),
                fmt::format("rank {}, a server", injection.rank));
    }
}

void check_exchange(const TrainOptions& o) {
    const bool nccl = o.all_reduce == "nccl";
    require(!nccl || o.device != "cpu", "--all-reduce", "another sum with --device cpu", "nccl");
    // NCCL's documentation promises no order of sums; those in an NVLink switch may differ by the
    // call.
    require(!nccl || !o.deterministic, "--all-reduce",
            "sums with the same bits in every run with --deterministic: ordered", "nccl");
    require(o.wire == Wire::kF32 || o.all_reduce == "auto" || o.all_reduce == "ring",
            "--all-reduce", "ring with --wire bf16", o.all_reduce);
    require(o.lost_after_s <= o.stall_limit_s, "--lost-after-s",
            fmt::format("at most the {} s of --stall-limit-s", o.stall_limit_s),
            fmt::format("{}", o.lost_after_s));
    if (const ComputeChoice compute = parse_compute(o.compute); compute.recording) {
        (void)find_recording(*compute.recording, kRecordedOption);
    }
    require(o.device != "cpu" ||
                (o.precision != PrecisionChoice::kTf32 && o.precision != PrecisionChoice::kF16),
            "--precision", "f32 or bf16 with --device cpu", std::string(word_of(o.precision)));
    const bool tree = parse_push_tree(o.push_tree).on();
    require(o.servers > 0 || !tree, "--push-tree", "off where there are no servers", o.push_tree);
    require(!tree || o.shards == ShardSizes::kEqual, "--shards", "equal with --push-tree",
            std::string(word_of(o.shards)));
    require(o.server_device == "cpu" || o.servers > 0, "--server-device",
            "cpu where there are no servers", o.server_device);
}

}  // namespace

bool computes_network(const TrainOptions& options) {
    return !parse_compute(options.compute).sleep_s;
}

int server_ranks(const TrainOptions& options) {
    return options.arch == Architecture::kRing ? 0 : std::max(options.servers, 1);
}

TrainOptions checked(TrainOptions options, int world_size) {
    each_option(std::as_const(options), CheckValues());
    check_ranks(options, world_size);
    check_exchange(options);
    require(!options.data.empty(), "--data", "a dataset file (see cohort import)", "nothing");
    require(!options.out.empty(), "--out", "a folder for the results", "nothing");
    if (options.samples > 0 && options.epochs > 0) {
        fail<UsageError>({.where = "--samples, --epochs",
                          .what = "both set the length of the run",
                          .expected = "one of them"});
    }
    require(options.target_accuracy == 0 || options.target_loss == 0,
            "--target-accuracy, --target-loss", "one of them", "both");
    require(!options.resume || !options.overwrite, "--resume, --overwrite", "one of them", "both");
    return options;
}

ModeSetting mode_setting(const TrainOptions& options, int workers) {
    return mode_setting(options,
                        {.live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                         .batch = options.batch,
                         .workers_at_start = workers,
                         .continued = options.resume,
                         .own_seconds = {},
                         .chooser = static_cast<const ChooserOptions&>(options)});
}

}  // namespace cohort
