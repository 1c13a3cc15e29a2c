#pragma once

#include <cstdint>
#include <string>

#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/modes.hpp"

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
inline constexpr Limits<int> kKeepCheckpointsLimits{.least = 1, .most = 1'000'000};

/// Everything a training run can be told. Each field is the `cohort train` option of the same
/// name (underscores for dashes); docs/options.md lists them.
struct TrainOptions {
    std::string data;                    ///< dataset file (HDF5)
    std::string model = "lenet";         ///< name for make_model
    std::string mode;                    ///< who waits for whom; empty: ring or ssgd, by arch
    std::string mode_schedule;           ///< "0:ssgd,20000:static:6": modes by samples applied
    std::string arch = "ring";           ///< "servers" or "ring"
    int servers = 0;                     ///< parameter server ranks; 0: none, or 1 by arch
    std::string all_reduce = "auto";     ///< ring: "auto", "ring", "ordered", "mpi", "nccl"
    std::int64_t bucket_bytes = 0;       ///< ring: gradients leave in pieces of this size; 0: auto
    std::int64_t chunk_bytes = 1 << 20;  ///< servers: transfers leave in pieces of this size
    double stall_limit_s = 60;           ///< a wait this long warns, twice as long ends the job
    double lost_after_s = 15;            ///< a rank silent for this long is lost
    double eval_share = 0.25;            ///< of a core of rank 0, evaluating in asynchronous modes
    std::string stale_momentum = "look-ahead";  ///< servers: "look-ahead" or "keep"
    std::string lr_rule = "per-sample";         ///< "per-sample", "published" or "adascale"
    double noise_scale = 0;            ///< adascale: phi, samples; 0: measured as training goes
    std::string predictor = "auto";    ///< for choosers: where times to come are taken from
    std::string predictor_file;        ///< of `cohort predictor train`; empty: the shipped one
    std::string efficiency = "model";  ///< for choosers: cost of staleness by "model" or "prior"
    std::string efficiency_file;       ///< of `cohort efficiency train`; empty: the shipped one
    std::string chooser_file;  ///< of `cohort chooser train`; empty: the shipped one; "none": none
    int max_lost = -1;         ///< workers that may be lost before the job ends; -1: all but one
    std::string node_staging = "auto";  ///< servers: sum a node's gradients before they are sent
    /// "network", or "sleep:40ms" in its place; "+recorded:NAME" adds the times of a recording.
    std::string compute = "network";
    std::string inject;                    ///< faults on purpose, see parse_injections
    std::int64_t batch = 128;              ///< samples per step and worker
    double lr = 0.01;                      ///< learning rate at the start of the schedule
    std::string lr_schedule = "constant";  ///< text form of a Schedule
    std::int64_t warmup_samples = 0;       ///< linear warm-up of the learning rate
    std::string optimizer = "sgd";         ///< "sgd" or "adamw"
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 0;
    std::int64_t samples = 0;       ///< budget in samples applied; 0 = by epochs
    std::int64_t epochs = 0;        ///< budget in epochs; 0 = by samples, both 0 = one epoch
    std::uint64_t seed = 1;         ///< of initial parameters, order, dropout, augmentation
    int threads = 0;                ///< of the compute device; 0 = the cores this process may use
    int loader_threads = 1;         ///< that normalise and augment
    std::string device = "auto";    ///< of workers: "auto", "cpu", "cuda", "cuda:1"
    std::string precision = "f32";  ///< of workers, see parse_precision
    std::string server_device = "cpu";    ///< where shards lie: "cpu" or "cuda"
    double target_accuracy = 0;           ///< in 0..1; the run ends once test accuracy reaches it
    bool deterministic = false;           ///< bit-identical from run to run
    std::string augment = "none";         ///< "none" or a list of "pad-crop:PIXELS" and "flip"
    std::int64_t eval_every_samples = 0;  ///< 0 = once per epoch
    double checkpoint_every_s = 600;      ///< 0 = not by time
    std::int64_t checkpoint_every_samples = 0;  ///< 0 = not by samples
    int keep_checkpoints = 2;
    bool resume = false;        ///< continue from the newest valid checkpoint in `out`
    bool overwrite = false;     ///< replace the results in `out`
    double log_every_s = 5;     ///< progress lines and train metrics
    std::string record_trace;   ///< file for the workers' own times as a trace; empty: none
    std::string record_load;    ///< file for the workers' iterations; empty: none
    bool record_rates = false;  ///< RateWindows are measured whatever the mode
    std::string out;            ///< folder for model.h5, metrics.jsonl and checkpoints
};

/// False: --compute sleep, nothing is learned.
[[nodiscard]] bool computes_network(const TrainOptions& options);
/// Server ranks that the options ask for: 0 with rings.
[[nodiscard]] int server_ranks(const TrainOptions& options);

/// The options with `mode` (unless there is a schedule) and `servers` filled in where they were
/// left to the program.
[[nodiscard]] TrainOptions resolved(TrainOptions options);

/// The mode or schedule that the options name.
[[nodiscard]] ModeChoice mode_choice(const TrainOptions& options);

/// What modes are made for at the start of a run. Errors: UsageError.
[[nodiscard]] ModeSetting mode_setting(const TrainOptions& options, int workers);

/// Checks everything that can be known without opening a file.
/// Errors: UsageError naming the option, what is allowed and what was given.
void check_options(const TrainOptions& options, int world_size);

}  // namespace cohort
