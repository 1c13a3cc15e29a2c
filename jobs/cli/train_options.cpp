#include "jobs/cli/train_options.hpp"

#include <string>

#include "cohort/model/zoo.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/option_value.hpp"

namespace cohort {
namespace {

void declare_job(CLI::App& app, TrainOptions& o) {
    value(app, "--data", o.data, "Dataset file (HDF5, see docs/data.md); required")
        ->type_name("FILE");
    value(app, "--model", o.model, "Network: " + CLI::detail::join(model_names(), ", "))
        ->type_name("NAME");
    value(app, "--out", o.out, "Folder for model.h5, metrics.jsonl and checkpoints; required")
        ->type_name("DIR");
    app.add_flag("--resume", o.resume, "Continue from the newest valid checkpoint in --out");
    app.add_flag("--overwrite", o.overwrite,
                 "Replace the results that --out holds, and files that are recorded anew");
}

void declare_exchange(CLI::App& app, TrainOptions& o) {
    declare_arch(app, o.arch);
    value(app, "--servers", o.servers,
          "Parameter server ranks, the first of the job; 0: one with --arch servers",
          kServersLimits);
    declare_modes(app, o, "; can be changed while the job runs (cohort ctl)");
    declare_choosers(app, o, {"last", "ewma", "episodes", "lstm", "auto"});
    value(app, "--node-staging", o.node_staging,
          "Servers: whether the gradients of a host's workers are summed there before they are "
          "sent; auto: on hosts with several workers and no server")
        ->check(CLI::IsMember({"auto", "on", "off"}));
    value(app, "--all-reduce", o.all_reduce,
          "How a ring sums: own ring, own with sums in member order, MPI's, NCCL's; auto: nccl "
          "where every member has a GPU of its own, else the faster of ring and mpi, measured at "
          "start (--deterministic: ordered; nccl is refused, docs/runs.md)")
        ->check(CLI::IsMember({"auto", "ring", "ordered", "mpi", "nccl"}));
    value(app, "--bucket-bytes", o.bucket_bytes,
          "Bytes of gradient that a ring sums at a time, while the rest is computed; 0: an "
          "eighth of it, 64 KiB to 4 MiB",
          kBucketBytesLimits);
    value(app, "--chunk-bytes", o.chunk_bytes, "Bytes of a message to or from servers",
          kChunkBytesLimits);
}

void declare_waiting(CLI::App& app, TrainOptions& o) {
    value(app, "--stall-limit-s", o.stall_limit_s,
          "Seconds of waiting after which a warning names who is missing; after twice as long the "
          "job ends with exit code 4",
          kSomeSecondsLimits);
    value(app, "--lost-after-s", o.lost_after_s,
          "Seconds of silence after which a rank is lost; not above --stall-limit-s",
          kSomeSecondsLimits);
    value(app, "--max-lost", o.max_lost,
          "Workers that may be lost before the job ends with code 4; -1: all but one",
          kMaxLostLimits);
    value(app, "--compute", o.compute,
          "network, or sleep:40ms: mini-batches that only take that long, to study modes; either "
          "with "
          "+recorded:NAME or +recorded:FILE: a recording's times on top (docs/patterns.md)")
        ->type_name("KIND");
    value(app, "--inject", o.inject,
          "Faults on purpose: \"rank=3,cpu=0.3,from=10s,to=40s;rank=4,kill=12s\"; of a world rank "
          "cpu=SHARE of its speed, bw=20MB/s, delay=50ms (p=0.02: to that share of the "
          "mini-batches), sample=2ms, kill=12s, freeze=5s..20s (docs/switching.md)")
        ->type_name("LIST");
}

void declare_length(CLI::App& app, TrainOptions& o) {
    value(app, "--samples", o.samples, "Samples to train on; 0: by --epochs", kSamplesLimits);
    value(app, "--epochs", o.epochs, "Passes over the train group; 0: by --samples, else one",
          kEpochsLimits);
    declare_target(app, o);
}

void declare_optimizer(CLI::App& app, TrainOptions& o) {
    declare_rate(app, o);
    value(app, "--warmup-samples", o.warmup_samples,
          "Samples over which the learning rate grows to its value; 0: none", kSamplesLimits);
    declare_update_rule(app, o);
    app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum (sgd)");
    declare_weight_decay(app, o);
    value(app, "--augment", o.augment, "none, or a list of pad-crop:PIXELS and flip")
        ->type_name("LIST");
}

void declare_machine(CLI::App& app, TrainOptions& o) {
    value(app, "--seed", o.seed,
          "Seed of initial parameters, sample order, dropout and augmentation", kSeedLimits);
    app.add_flag("--deterministic", o.deterministic, "The same bits in every run (docs/runs.md)");
    declare_device(app, o.device, "What workers compute on");
    declare_precision(app, o.precision);
    value(app, "--server-device", o.server_device, "Where servers keep their shards")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    value(app, "--threads", o.threads,
          "Threads that compute; 0: all cores, shared by the workers of a host", kThreadsLimits);
    value(app, "--loader-threads", o.loader_threads, "Threads that prepare batches",
          kSomeThreadsLimits);
}

void declare_reports(CLI::App& app, TrainOptions& o) {
    value(app, "--eval-every-samples", o.eval_every_samples,
          "Samples between evaluations on the test group; 0: once per epoch", kSamplesLimits);
    value(app, "--eval-share", o.eval_share,
          "Share of a core of rank 0 that evaluates beside training in modes that do not wait",
          kEvalShareLimits);
    value(app, "--checkpoint-every-s", o.checkpoint_every_s,
          "Seconds between checkpoints; 0: not by time", kSecondsLimits);
    value(app, "--checkpoint-every-samples", o.checkpoint_every_samples,
          "Samples between checkpoints; 0: not by samples", kSamplesLimits);
    value(app, "--keep-checkpoints", o.keep_checkpoints, "Checkpoints to keep, the newest ones",
          kKeepCheckpointsLimits);
    value(app, "--log-every-s", o.log_every_s, "Seconds between progress lines and metrics",
          kSomeSecondsLimits);
    value(app, "--record-trace", o.record_trace,
          "Write the workers' own times as a trace (CSV) that cohort simulate can repeat")
        ->type_name("FILE");
    value(app, "--record-load", o.record_load,
          "Write what every iteration took and could use (CSV): for cohort predictor")
        ->type_name("FILE");
    app.add_flag("--record-rates", o.record_rates,
                 "Measure whatever the mode what its plans achieve (metrics.jsonl): for cohort "
                 "chooser");
}

}  // namespace

void declare_train_options(CLI::App& app, TrainOptions& options) {
    declare_job(app, options);
    declare_exchange(app, options);
    declare_waiting(app, options);
    declare_length(app, options);
    declare_optimizer(app, options);
    declare_machine(app, options);
    declare_reports(app, options);
}

}  // namespace cohort
