#pragma once

#include <cstdint>
#include <string>

#include "cohort/optim/learning_options.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/job_options.hpp"
#include "cohort/sched/mode_options.hpp"
#include "cohort/tensor/precision.hpp"

namespace cohort {

/// Everything a training run can be told. Each field is the `cohort train` option of the same
/// name (underscores for dashes), train/run/option_list.hpp and docs/options.md list them.
struct TrainOptions : JobOptions, ModeOptions, ChooserOptions, LearningOptions {
    TrainOptions() {
        model = "lenet";
        arch = Architecture::kRing;
        batch = 128;
    }

    std::string all_reduce = "auto";     ///< ring: "auto", "ring", "ordered", "mpi", "nccl"
    std::int64_t bucket_bytes = 0;       ///< ring: gradients leave in pieces of this size; 0: auto
    std::int64_t chunk_bytes = 1 << 20;  ///< servers: transfers leave in pieces of this size
    double stall_limit_s = 60;           ///< a wait this long warns, twice as long ends the job
    double lost_after_s = 15;            ///< a rank silent for this long is lost
    double eval_share = 0.25;            ///< of a core of rank 0, evaluating in asynchronous modes
    int max_lost = -1;  ///< workers that may be lost before the job ends; -1: all but one
    /// "network", or "sleep:40ms" in its place; "+recorded:NAME" adds the times of a recording.
    std::string compute = "network";
    std::string inject;               ///< faults on purpose, see parse_injections
    std::int64_t warmup_samples = 0;  ///< linear warm-up of the learning rate
    std::int64_t epochs = 0;          ///< budget; 0: by samples, both 0: one epoch
    int loader_threads = 1;           ///< that normalise and augment
    std::string device = "auto";      ///< of workers: "auto", "cpu", "cuda", "cuda:1"
    PrecisionChoice precision = PrecisionChoice::kAuto;  ///< of workers
    std::string server_device = "cpu";                   ///< where shards lie: "cpu" or "cuda"
    bool deterministic = false;                          ///< bit-identical from run to run
    std::string augment = "none";     ///< "none" or a list of "pad-crop:PIXELS" and "flip"
    double checkpoint_every_s = 600;  ///< at most; 0: not by time
    std::int64_t checkpoint_every_samples = 0;  ///< 0: not by samples
    int keep_checkpoints = 2;
    double mirror_every_s = -1;  ///< copies in memory; below 0: at a hundredth of the time
    bool resume = false;         ///< continue from the newest valid checkpoint in `out`
    double log_every_s = 5;      ///< progress lines and train metrics
    double page_every_s = 2;     ///< the page live.html, at most that often; 0: none
    std::string record_trace;    ///< file for the workers' own times as a trace; empty: none
    std::string record_load;     ///< file for the workers' iterations; empty: none
    std::string timeline;        ///< file for what every worker did when; empty: none
    bool tensorboard = false;    ///< event files in the folder `tensorboard` of `out`
    std::string metrics_file;    ///< file for Prometheus' node exporter; empty: none
    int metrics_port = -1;       ///< of 127.0.0.1, for Prometheus; 0: a free one, -1: none
};

/// False: --compute sleep, nothing is learned.
[[nodiscard]] bool computes_network(const TrainOptions& options);
/// Server ranks that the options ask for: 0 with rings.
[[nodiscard]] int server_ranks(const TrainOptions& options);

/// What modes are made for at the start of a run.
[[nodiscard]] ModeSetting mode_setting(const TrainOptions& options, int workers);

/// The options with everything that can be known without opening a file checked, and `mode`,
/// `modes` and `servers` filled in.
/// Errors: UsageError naming the option, what is allowed and what was given.
[[nodiscard]] TrainOptions checked(TrainOptions options, int world_size);

}  // namespace cohort
