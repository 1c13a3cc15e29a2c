#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/model/zoo.hpp"
#include "cohort/train/options.hpp"
#include "core/tensor/option_list.hpp"
#include "layers/optim/option_list.hpp"
#include "sched/modes/option_list.hpp"

// The list of TrainOptions, see core/options.hpp.
namespace cohort {

// Ranges of what only real jobs have.
inline constexpr Limits<std::int64_t> kChunkBytesLimits{.least = 1024,
                                                        .most = std::int64_t{1} << 30};
inline constexpr Limits<std::int64_t> kBucketBytesLimits{
    .least = 1024, .most = std::int64_t{1} << 30, .or_zero = true};
inline constexpr Limits<double> kEvalShareLimits{
    .least = 0, .most = 1, .ends = Limits<double>::Ends::kNotLeast};
inline constexpr Limits<std::int64_t> kEpochsLimits{.least = 0, .most = 1'000'000'000};
inline constexpr Limits<int> kMaxLostLimits{.least = -1, .most = kMostPlaces};
inline constexpr Limits<double> kMirrorLimits{.least = -1, .most = 1e9};
inline constexpr Limits<int> kPortLimits{.least = -1, .most = 65535};
inline constexpr Limits<int> kKeepCheckpointsLimits{.least = 1, .most = 1'000'000};

namespace train_options {

template <class Options, class Visit>
void each_of_job(Options& o, const Visit& visit) {
    visit({"--data", "Dataset file (HDF5, see docs/data.md); required", "FILE"}, o.data);
    visit({"--model", fmt::format("Network: {}, or FILE.onnx", fmt::join(model_names(), ", ")),
           "NAME"},
          o.model);
    visit({"--init",
           "File of weights to start from, a model.h5 or FILE.safetensors; empty: they are drawn",
           "FILE"},
          o.init);
    visit({"--out", "Folder for model.h5, metrics.jsonl and checkpoints; required", "DIR"}, o.out);
    visit({"--resume", "Continue from the newest valid checkpoint in --out"}, o.resume);
    visit({"--overwrite", "Replace the results that --out holds, and files that are recorded anew"},
          o.overwrite);
}

template <class Options, class Visit>
void each_of_exchange(Options& o, const Visit& visit) {
    visit({"--servers", "Parameter server ranks, the first of the job; 0: one with --arch servers"},
          o.servers, kServersLimits);
    each_mode_option(o, visit, "; can be changed while the job runs (cohort ctl)");
    each_chooser_option(o, visit, {"last", "ewma", "episodes", "lstm", "auto"});
    visit({"--node-staging",
           "Servers: whether the gradients of a host's workers are summed there before they are "
           "sent; auto: on hosts with several workers and no server"},
          o.node_staging);
    each_shard_option(o, visit);
    each_wire_option(o, visit);
    visit({"--push-tree",
           "Servers: sum pushes over hosts on their way: off, auto (a tree by the measured rates "
           "of cards; "
           "parameters come down the same way where that is quicker), or groups of hosts whose "
           "first is the head, 0,1,2/3,4,5",
           "TREE"},
          o.push_tree);
    visit({"--all-reduce",
           "How a ring sums: own ring, own with sums in member order, MPI's, NCCL's; auto: nccl "
           "where every member has a GPU of its own, else the faster of ring and mpi, measured at "
           "start (--deterministic: ordered; nccl is refused, docs/runs.md)",
           nullptr,
           {"auto", "ring", "ordered", "mpi", "nccl"}},
          o.all_reduce);
    visit({"--bucket-bytes",
           "Bytes of gradient that a ring sums at a time, while the rest is computed; 0: an "
           "eighth of it, 64 KiB to 4 MiB"},
          o.bucket_bytes, kBucketBytesLimits);
    visit({"--chunk-bytes", "Bytes of a message to or from servers"}, o.chunk_bytes,
          kChunkBytesLimits);
}

template <class Options, class Visit>
void each_of_waiting(Options& o, const Visit& visit) {
    visit({"--stall-limit-s",
           "Seconds of waiting after which a warning names who is missing; after twice as long the "
           "job ends with exit code 4"},
          o.stall_limit_s, kSomeSecondsLimits);
    visit({"--lost-after-s",
           "Seconds of silence after which a rank is lost; not above --stall-limit-s"},
          o.lost_after_s, kSomeSecondsLimits);
    visit(
        {"--max-lost", "Workers that may be lost before the job ends with code 4; -1: all but one"},
        o.max_lost, kMaxLostLimits);
    visit({"--compute",
           "network, or sleep:40ms: mini-batches that only take that long, to study modes; either "
           "with +recorded:NAME or +recorded:FILE: a recording's times on top (docs/patterns.md)",
           "KIND"},
          o.compute);
    visit({"--inject",
           "Faults on purpose: \"rank=3,cpu=0.3,from=10s,to=40s;rank=4,kill=12s\"; of a world rank "
           "cpu=SHARE of its speed, bw=20MB/s, delay=50ms (p=0.02: to that share of the "
           "mini-batches), sample=2ms, kill=12s, freeze=5s..20s (docs/switching.md)",
           "LIST"},
          o.inject);
}

template <class Options, class Visit>
void each_of_learning(Options& o, const Visit& visit) {
    visit({"--samples", "Samples to train on; 0: by --epochs"}, o.samples, kSamplesLimits);
    visit({"--epochs", "Passes over the train group; 0: by --samples, else one"}, o.epochs,
          kEpochsLimits);
    visit({"--target-accuracy", "End once the test accuracy reaches this; 0: never"},
          o.target_accuracy, kTargetLimits);
    visit({"--target-loss", "End once the test loss (of text per token) is as small; 0: never"},
          o.target_loss, kTargetLossLimits);
    visit({"--batch", "Samples per step and worker"}, o.batch, kBatchLimits);
    each_rate_option(o, visit);
    visit({"--warmup-samples", "Samples over which the learning rate grows to its value; 0: none"},
          o.warmup_samples, kSamplesLimits);
    each_optimizer_option(o, visit);
    visit({"--nesterov", "Nesterov's momentum (sgd)"}, o.nesterov);
    each_step_option(o, visit);
    visit({"--augment", "none, or a list of pad-crop:PIXELS and flip", "LIST"}, o.augment);
}

template <class Options, class Visit>
void each_of_machine(Options& o, const Visit& visit) {
    visit({"--seed", "Seed of initial parameters, sample order, dropout and augmentation"}, o.seed,
          kSeedLimits);
    visit({"--deterministic", "The same bits in every run (docs/runs.md)"}, o.deterministic);
    each_device_option(o, visit, "What workers compute on");
    visit({"--server-device", "Where servers keep their shards", nullptr, {"cpu", "cuda"}},
          o.server_device);
    visit({"--threads", "Threads that compute; 0: all cores, shared by the workers of a host"},
          o.threads, kThreadsLimits);
    visit({"--loader-threads", "Threads that prepare batches"}, o.loader_threads,
          kSomeThreadsLimits);
}

template <class Options, class Visit>
void each_of_reports(Options& o, const Visit& visit) {
    visit({"--eval-every-samples",
           "Samples between evaluations on the test group; 0: once per epoch"},
          o.eval_every_samples, kSamplesLimits);
    visit({"--eval-share",
           "Share of a core of rank 0 that evaluates beside training in modes that do not wait"},
          o.eval_share, kEvalShareLimits);
    visit(
        {"--checkpoint-every-s",
         "Most seconds between checkpoints: the first after 60, then as their measured cost and a "
         "failure a day make best; 0: not by time"},
        o.checkpoint_every_s, kSecondsLimits);
    visit({"--checkpoint-every-samples", "Samples between checkpoints; 0: not by samples"},
          o.checkpoint_every_samples, kSamplesLimits);
    visit({"--mirror-every-s",
           "Seconds between copies of the run's state in the memory of other ranks, from which the "
           "ranks that are left of cohort train go on when rank 0 or a server is lost; -1: so that "
           "they cost a hundredth of the time; 0: none"},
          o.mirror_every_s, kMirrorLimits);
    visit({"--keep-checkpoints", "Checkpoints to keep, the newest ones"}, o.keep_checkpoints,
          kKeepCheckpointsLimits);
    visit({"--log-every-s", "Seconds between progress lines and metrics"}, o.log_every_s,
          kSomeSecondsLimits);
    visit(
        {"--page-every-s",
         "Least seconds between two versions of live.html in --out, a page that shows how the run "
         "stands; 0: there is none"},
        o.page_every_s, kSecondsLimits);
    visit({"--record-trace",
           "Write the workers' own times as a trace (CSV) that cohort simulate can repeat", "FILE"},
          o.record_trace);
    visit({"--record-load",
           "Write what every iteration took and could use (CSV): for cohort predictor", "FILE"},
          o.record_load);
    visit({"--timeline",
           "Write what every worker did when (JSON): for Perfetto and chrome://tracing "
           "(docs/observe.md)",
           "FILE"},
          o.timeline);
    visit(
        {"--tensorboard", "Write event files for TensorBoard into the folder tensorboard of --out"},
        o.tensorboard);
    visit({"--metrics-file",
           "Keep the newest figures in this file, for the textfile collector of Prometheus' node "
           "exporter",
           "FILE"},
          o.metrics_file);
    visit(
        {"--metrics-port",
         "Port of 127.0.0.1 on rank 0's host where Prometheus finds the newest figures; 0: a free "
         "one, -1: none"},
        o.metrics_port, kPortLimits);
    visit({"--record-rates",
           "Measure whatever the mode what its plans achieve (metrics.jsonl): for cohort chooser"},
          o.record_rates);
}

}  // namespace train_options

template <class Visit>
void each_option(ConstOrNot<TrainOptions> auto& options, const Visit& visit) {
    train_options::each_of_job(options, visit);
    train_options::each_of_exchange(options, visit);
    train_options::each_of_waiting(options, visit);
    train_options::each_of_learning(options, visit);
    train_options::each_of_machine(options, visit);
    train_options::each_of_reports(options, visit);
}

}  // namespace cohort
