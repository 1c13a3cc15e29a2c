#include "train/coordinator/run_start.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sched/recorded/weights_file.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/earlier_part.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

ModeSetting setting_of(const JobContext& parts, int workers) {
    ModeSetting setting = mode_setting(parts.options, workers);
    setting.chooser.rate_weights = load_rate_weights(parts.options.chooser_file);
    setting.workers_at_start = std::max<std::int64_t>(1, parts.reference_batch / setting.batch);
    if (workers < setting.workers_at_start) {
        log_warn(
            "the run began with {} workers and goes on with {}: parameters of its mode and faults "
            "that name others do without them",
            setting.workers_at_start, workers);
    }
    setting.job = job_facts(parts);
    return setting;
}

/// Errors: FileError when both are known and differ.
void check_arithmetic(const std::string& manifest, const std::string& then,
                      const std::string& now) {
    if (!then.empty() && !now.empty() && then != now) {
        fail<FileError>(
            {.where = manifest,
             .what = "was written on another kind of processor: results have other bits "
                     "here, which --deterministic rules out",
             .expected = then,
             .got = now,
             .hint = "a processor of that kind, --precision with the word wanted, or no "
                     "--deterministic"});
    }
}

/// What is trained again since the checkpoint, and a learning rate that rises.
void compare_with_earlier(const JobContext& parts, const RunSnapshot& snapshot) {
    const EarlierPart earlier =
        read_earlier_part(RunFolder(parts.options.out).metrics, snapshot.metrics_bytes);
    const std::int64_t samples = snapshot.progress.samples_applied;
    if (earlier.samples_applied > samples) {
        log_info("the run had applied {} samples: {} of them are trained again",
                 earlier.samples_applied, earlier.samples_applied - samples);
    }
    if (!earlier.schedule || earlier.schedule->needs_end()) {
        return;
    }
    constexpr double kRounding = 1e-9;
    const double before = earlier.schedule->lr(earlier.lr, samples);
    const double now = parts.schedule.lr(parts.options.lr, samples);
    if (now > before * (1 + kRounding) + kRounding * parts.options.lr) {
        log_warn(
            "the learning rate rises here from {:.4g} ({}) to {:.4g} ({}); --lr and "
            "--lr-schedule, with the samples at which it ends, choose another",
            before, earlier.schedule->to_text(), now, parts.schedule.to_text());
    }
}

}  // namespace

RunStart find_start(JobContext& parts) {
    const TrainOptions& options = parts.options;
    if (!options.resume) {
        return {};
    }
    const std::string folder = RunFolder(options.out).checkpoints;
    const auto found = find_manifest(
        folder, run_identity(options, parts.train_set->info(), parts.graph), parts.hdf5);
    if (!found) {
        log_info("no checkpoint in {}: starting at the beginning", folder);
        return {};
    }
    const RunSnapshot& snapshot = found->snapshot;
    check_arithmetic(found->manifest, snapshot.arithmetic, parts.arithmetic);
    parts.reference_batch = snapshot.reference_batch;
    compare_with_earlier(parts, snapshot);
    return {.order = {.checkpoint = found->manifest, .version = snapshot.version},
            .leases = decode_lease_state(snapshot.lease_state, found->manifest),
            .accounts = snapshot.accounts,
            .counts = {.samples_applied = snapshot.progress.samples_applied,
                       .updates = snapshot.progress.updates,
                       .version = snapshot.version,
                       .reference_batches = snapshot.reference_batches,
                       .drops = snapshot.progress.drops},
            .progress = snapshot.progress,
            .metrics_bytes = snapshot.metrics_bytes};
}

OpenedSession open_session(const JobContext& parts, int workers,
                           const TrainEnvironment& environment, const RunReporter& reporter,
                           const RunStart& start) {
    const TrainOptions& options = parts.options;
    ModeSetting setting = setting_of(parts, workers);
    setting.admits = environment.admits;
    OpenedSession opened;
    if (!options.deterministic) {
        opened.model = model_of(setting.chooser);  // a file that cannot be read ends the run here
    }
    opened.session = std::make_unique<TrainingSession>(
        SessionOptions{.workers = workers,
                       .batch = options.batch,
                       .reference_batch = parts.reference_batch,
                       .budget_samples = parts.budget_samples,
                       .noise_scale = options.noise_scale,
                       .clip_norm = options.clip_norm,
                       .monitor_load = !options.deterministic,  // times differ from run to run
                       .learning_rate =
                           [&parts](std::int64_t samples) {
                               return parts.schedule.lr(parts.options.lr, samples);
                           },
                       .now =
                           [&reporter] {
                               return SessionTime{.training_s = reporter.seconds_of_training(),
                                                  .clock_s = reporter.clock().now()};
                           },
                       .predictor =
                           [workers, model = opened.model, batch = options.batch,
                            name = setting.chooser.predictor] {
                               return make_predictor(name, workers, batch, model);
                           }},
        ModeController({.modes = options.modes, .deterministic = options.deterministic}, setting,
                       start.counts.samples_applied),
        LeaseLedger(parts.train_set->info(), parts.order, parts.budget_samples, start.leases),
        start.accounts, start.counts);
    return opened;
}

}  // namespace cohort
