#include "cohort/train/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/policy.hpp"
#include "cohort/tensor/element.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "train/faults/inject.hpp"
#include "train/worker/sleep_compute.hpp"

namespace cohort {
namespace {

void check_modes(const TrainOptions& options, int workers) {
    require(options.mode.empty() || options.mode_schedule.empty(), "--mode, --mode-schedule",
            "one of them", "both");
    std::vector<ScheduledMode> modes{{.samples = 0, .mode = resolved(options).mode}};
    if (!options.mode_schedule.empty()) {
        modes = parse_mode_schedule(options.mode_schedule);
    }
    for (const ScheduledMode& scheduled : modes) {
        for (const SyncPlan& plan : plans_of_mode(scheduled.mode, mode_setting(options, workers))) {
            require(!options.deterministic || is_synchronous(plan), "--deterministic",
                    "a mode in which every update waits for all workers", plan.name);
        }
    }
    require_within(options.noise_scale, kNoiseScaleLimits, "--noise-scale");
    require(options.noise_scale == 0 || options.lr_rule == "adascale", "--noise-scale",
            "--lr-rule adascale", options.lr_rule);
    require(!options.record_rates || !options.deterministic, "--record-rates",
            "a run that looks at times", "--deterministic");
}

/// The last rank of each role must exist, and the mode must fit.
void check_ranks(const TrainOptions& options, int world_size) {
    const Architecture architecture = parse_architecture(options.arch);
    const bool ring = architecture == Architecture::kRing;
    require(!ring || options.servers == 0, "--servers", "0 with --arch ring",
            std::to_string(options.servers));
    require_within(options.servers, kServersLimits, "--servers");
    const int servers = server_ranks(options);
    if (world_size < servers + 1) {
        fail<UsageError>({.where = "--arch " + options.arch,
                          .what = "too few ranks",
                          .expected = fmt::format("{} server(s) and at least one worker", servers),
                          .got = fmt::format("{} rank(s)", world_size),
                          .hint = fmt::format("mpirun -n {}, or --arch ring", servers + 2)});
    }
    check_modes(options, world_size - servers);
    require_within(options.max_lost, kMaxLostLimits, "--max-lost");
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
    require(parse_all_reduce(o.all_reduce) != AllReduceAlgorithm::kNccl || o.device != "cpu",
            "--all-reduce", "another sum with --device cpu", o.all_reduce);
    // NCCL's documentation promises no order of sums; those in an NVLink switch may differ by the
    // call.
    require(parse_all_reduce(o.all_reduce) != AllReduceAlgorithm::kNccl || !o.deterministic,
            "--all-reduce", "sums with the same bits in every run with --deterministic: ordered",
            o.all_reduce);
    require_within(o.bucket_bytes, kBucketBytesLimits, "--bucket-bytes");
    require_within(o.chunk_bytes, kChunkBytesLimits, "--chunk-bytes");
    require_within(o.stall_limit_s, kSomeSecondsLimits, "--stall-limit-s");
    require_within(o.lost_after_s, kSomeSecondsLimits, "--lost-after-s");
    require(o.lost_after_s <= o.stall_limit_s, "--lost-after-s",
            fmt::format("at most the {} s of --stall-limit-s", o.stall_limit_s),
            fmt::format("{}", o.lost_after_s));
    require(o.node_staging == "auto" || o.node_staging == "on" || o.node_staging == "off",
            "--node-staging", "auto, on or off", o.node_staging);
    if (const ComputeChoice compute = parse_compute(o.compute); compute.recording) {
        (void)find_recording(*compute.recording, kRecordedOption);
    }
    require_within(o.eval_share, kEvalShareLimits, "--eval-share");
}

void check_devices(const TrainOptions& o) {
    const Precision precision = parse_precision(o.precision);
    require(precision == Precision::kF32 || o.device != "cpu", "--precision",
            "f32 with --device cpu", o.precision);
    require(o.server_device == "cpu" || o.server_device == "cuda", "--server-device", "cpu or cuda",
            o.server_device);
    require(o.server_device == "cpu" || server_ranks(o) > 0, "--server-device",
            "cpu where there are no servers", o.server_device);
}

void check_budget(const TrainOptions& o) {
    require_within(o.samples, kSamplesLimits, "--samples");
    require_within(o.epochs, kEpochsLimits, "--epochs");
    if (o.samples > 0 && o.epochs > 0) {
        fail<UsageError>({.where = "--samples, --epochs",
                          .what = "both set the length of the run",
                          .expected = "one of them"});
    }
}

}  // namespace

bool computes_network(const TrainOptions& options) {
    return !parse_compute(options.compute).sleep_s;
}

int server_ranks(const TrainOptions& options) {
    const bool ring = parse_architecture(options.arch) == Architecture::kRing;
    return ring ? 0 : std::max(options.servers, 1);
}

TrainOptions resolved(TrainOptions options) {
    if (options.mode.empty() && options.mode_schedule.empty()) {
        options.mode = default_mode(parse_architecture(options.arch));
    }
    options.servers = server_ranks(options);
    return options;
}

void check_options(const TrainOptions& o, int world_size) {
    check_ranks(o, world_size);
    check_exchange(o);
    check_devices(o);
    require(!o.data.empty(), "--data", "a dataset file (see cohort import)", "nothing");
    require(!o.out.empty(), "--out", "a folder for the results", "nothing");
    check_budget(o);
    require_within(o.batch, kBatchLimits, "--batch");
    require_within(o.lr, kLearningRateLimits, "--lr");
    require_within(o.momentum, kMomentumLimits, "--momentum");
    require_within(o.weight_decay, kWeightDecayLimits, "--weight-decay");
    require_within(o.warmup_samples, kSamplesLimits, "--warmup-samples");
    require_within(o.threads, kThreadsLimits, "--threads");
    require_within(o.loader_threads, kSomeThreadsLimits, "--loader-threads");
    require_within(o.target_accuracy, kTargetLimits, "--target-accuracy");
    require_within(o.eval_every_samples, kSamplesLimits, "--eval-every-samples");
    require_within(o.checkpoint_every_s, kSecondsLimits, "--checkpoint-every-s");
    require_within(o.checkpoint_every_samples, kSamplesLimits, "--checkpoint-every-samples");
    require_within(o.keep_checkpoints, kKeepCheckpointsLimits, "--keep-checkpoints");
    require_within(o.log_every_s, kSomeSecondsLimits, "--log-every-s");
    require(!o.resume || !o.overwrite, "--resume, --overwrite", "one of them", "both");
}

ModeChoice mode_choice(const TrainOptions& options) {
    return {.mode = options.mode,
            .mode_schedule = options.mode_schedule,
            .deterministic = options.deterministic};
}

ModeSetting mode_setting(const TrainOptions& options, int workers) {
    return {.architecture = parse_architecture(options.arch),
            .live = std::vector<bool>(static_cast<std::size_t>(workers), true),
            .batch = options.batch,
            .workers_at_start = workers,
            .continued = options.resume,
            .stale_momentum = parse_stale_momentum(options.stale_momentum),
            .lr_rule = parse_lr_rule(options.lr_rule),
            .own_seconds = {},
            .chooser = chooser_options(options)};
}

}  // namespace cohort
