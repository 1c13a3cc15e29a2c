#include "training_run.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/core/units.hpp"
#include "cohort/train/process_usage.hpp"
#include "evaluation.hpp"
#include "hook_progress.hpp"
#include "lease_codec.hpp"
#include "run_folder.hpp"

namespace cohort {
namespace {

/// Share of a reference batch's statistics that goes into the running ones.
constexpr double kBatchNormMomentum = 0.1;

}  // namespace

Trainer::Run::Run(const TrainOptions& options, const TrainEnvironment& environment)
    : options_(options), environment_(environment), parts_(options, environment.cores) {
}

TrainSummary Trainer::Run::run() {
    started_ = clock().now();
    cpu_at_start_ = process_cpu_seconds();
    lock_.emplace(prepare_run_folder(options_));
    begin();
    try {
        const LiveLineGuard guard(environment_.live_line);
        loop();
        return_leases();
        for (const auto& hook : hooks_) {
            hook->on_end(*this, stop_.value_or(StopReason::kBudget));
        }
    } catch (const Error& error) {
        metrics_->write(error_json(error, static_cast<int>(error.exit_code()), progress_));
        throw Error(error.exit_code(),
                    fmt::format("{} (after update {}, {} samples applied)", error.what(),
                                progress_.updates, progress_.samples_applied));
    } catch (const std::exception& error) {
        metrics_->write(error_json(error, EXIT_FAILURE, progress_));
        throw;
    }
    save_model();
    TrainSummary summary = summarize();
    metrics_->write(summary_json(summary, options_));
    return summary;
}

/// Fresh parameters or those of a checkpoint, the lease book, metrics and hooks.
void Trainer::Run::begin() {
    const RunFolder folder(options_.out);
    const auto identity = run_identity(options_, parts_.train_set->info());
    std::optional<TrainSnapshot> found;
    if (options_.resume) {
        found = find_checkpoint(folder.checkpoints, identity, parts_.hdf5);
        if (!found) {
            log_info("no checkpoint in {}: starting at the beginning", folder.checkpoints);
        }
    }
    parts_.replica.initialise(options_.seed);
    if (found) {
        restore(*found);
    }
    book_.emplace(parts_.train_set->info(), parts_.order, parts_.budget_samples,
                  found ? decode_lease_state(found->lease_state) : LeaseState());
    metrics_ = std::make_unique<MetricsFile>(folder.metrics, found ? found->metrics_bytes : 0);
    metrics_->write(start_json(options_, parts_, progress_));
    make_hooks();
    for (const auto& hook : hooks_) {
        hook->on_start(*this);
    }
}

void Trainer::Run::make_hooks() {
    hooks_.push_back(make_nan_guard_hook());
    if (environment_.live_line) {
        hooks_.push_back(make_progress_hook(true, draw_live_line));
    } else {
        hooks_.push_back(
            make_progress_hook(false, [](const std::string& line) { log_info("{}", line); }));
    }
    hooks_.push_back(make_metrics_hook());
    hooks_.push_back(make_evaluation_hook());
    hooks_.push_back(make_target_hook());
    hooks_.push_back(make_stop_hook(environment_.stop_requested));
    hooks_.push_back(make_checkpoint_hook(RunFolder(options_.out).checkpoints, parts_.hdf5));
}

/// One pass of the loop is one iteration: lease -> batch -> gradient -> update -> hooks.
void Trainer::Run::loop() {
    const auto give_up = [this] {
        if (environment_.stop_requested()) {
            request_stop(StopReason::kSignal);
        }
        return stop_.has_value();
    };
    while (!stop_) {
        keep_leased();
        const std::optional<LoadedBatch> batch = parts_.train_loader.next(give_up);
        if (!batch) {
            return;  // every sample of the budget is applied, or the input stalls and a stop came
        }
        const StepReport step = train_on(*batch);
        settle(batch->lease(), step);
        report_memory();
        for (const auto& hook : hooks_) {
            hook->on_step(*this, step);
        }
    }
}

/// Leases ahead, so that the loader works on the next batches while this one trains.
void Trainer::Run::keep_leased() {
    while (submitted_ <= parts_.train_loader.prefetch()) {
        std::optional<Lease> lease = book_->take(options_.batch);
        if (!lease) {
            return;
        }
        parts_.train_loader.submit(std::move(*lease));
        ++submitted_;
    }
}

/// A batch of b samples is worth b / B of an update, B = --batch: all samples weigh the same.
StepReport Trainer::Run::train_on(const LoadedBatch& batch) {
    StepReport step;
    step.epoch = batch.epoch();
    step.learning_rate = parts_.schedule.lr(options_.lr, progress_.samples_applied);
    step.result = parts_.replica.train_step(view_of(batch), options_.seed);
    step.dropped_because = non_finite_reason(step.result, parts_.replica);
    step.applied = step.dropped_because.empty();
    if (step.applied) {
        const double fraction =
            static_cast<double>(batch.size()) / static_cast<double>(options_.batch);
        parts_.optimizer->update(parts_.replica.parameters(), parts_.replica.gradients(), fraction,
                                 step.learning_rate);
        parts_.replica.fold_batch_statistics(kBatchNormMomentum, fraction);
    }
    return step;
}

/// Books what became of the lease.
void Trainer::Run::settle(const Lease& lease, const StepReport& step) {
    --submitted_;
    if (step.applied) {
        check_invariant(book_->mark_applied(lease.id), "a trained lease is outstanding");
        progress_.samples_applied += lease.size();
        ++progress_.updates;
        progress_.dropped_in_a_row = 0;
    } else {
        check_invariant(book_->mark_returned(lease.id), "a dropped lease is outstanding");
        now_.returned_non_finite += lease.size();
        progress_.record_drop();
    }
    update_times();
}

/// Once: the first step has planned and touched what every later one needs.
void Trainer::Run::report_memory() {
    if (!memory_reported_) {
        memory_reported_ = true;
        log_info("memory after the first step: arena {}, process peak {}",
                 format_bytes(parts_.replica.arena_bytes()), format_bytes(process_peak_bytes()));
    }
}

void Trainer::Run::return_leases() {
    for (const Lease& lease : parts_.train_loader.discard_submitted()) {
        check_invariant(book_->mark_unused(lease.id), "a submitted lease is outstanding");
        now_.returned_stop += lease.size();
    }
    submitted_ = 0;
}

void Trainer::Run::request_stop(StopReason reason) {
    stop_ = stop_.value_or(reason);
}

void Trainer::Run::reach_target() {
    progress_.tta_seconds = progress_.tta_seconds.value_or(progress_.train_seconds);
}

void Trainer::Run::evaluate() {
    update_times();
    const Clock::Seconds start = clock().now();
    const auto report = evaluate_all(parts_.replica, parts_.test_loader, options_.batch,
                                     environment_.stop_requested);
    pauses_ += (clock().now() - start).count();
    update_times();
    if (!report) {
        request_stop(StopReason::kSignal);  // the evaluation stays due
        return;
    }
    progress_.evaluated_at = progress_.samples_applied;
    test_ = report;
    log_info("test after {} samples: accuracy {:.2f} %, loss {:.4f}", progress_.samples_applied,
             100 * report->accuracy, report->loss);
    for (const auto& hook : hooks_) {
        hook->on_evaluation(*this, *report);
    }
}

void Trainer::Run::report_checkpoint(const CheckpointReport& checkpoint) {
    outputs_saved_ = checkpoint.error.empty();
    for (const auto& hook : hooks_) {
        hook->on_checkpoint(*this, checkpoint);
    }
}

void Trainer::Run::update_times() {
    const double wall = (clock().now() - started_).count();
    progress_.wall_seconds = earlier_.wall_seconds + wall;
    progress_.train_seconds = earlier_.train_seconds + wall - pauses_;
    progress_.cpu_seconds = earlier_.cpu_seconds + process_cpu_seconds() - cpu_at_start_;
}

/// Of the whole run. What was outstanding at a checkpoint is leased anew, so only what came back
/// is carried over from earlier parts.
SampleAccounts Trainer::Run::accounts() const {
    const LeaseAccount& book = book_->account();
    SampleAccounts all;
    all.returned_non_finite = earlier_accounts_.returned_non_finite + now_.returned_non_finite;
    all.returned_stop = earlier_accounts_.returned_stop + now_.returned_stop;
    all.leased = book.leased + earlier_accounts_.returned();
    all.applied = book.applied;
    all.outstanding = book.outstanding;
    check_invariant(all.leased == all.applied + all.returned() + all.outstanding,
                    "every leased sample is accounted for");
    return all;
}

TrainSummary Trainer::Run::summarize() {
    update_times();
    TrainSummary summary;
    summary.reason = stop_.value_or(StopReason::kBudget);
    summary.progress = progress_;
    summary.accounts = accounts();
    summary.test = test_;
    const double seconds = progress_.train_seconds - earlier_.train_seconds;
    const auto samples = progress_.samples_applied - earlier_.samples_applied;
    summary.samples_per_s = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
    summary.arena_bytes = parts_.replica.arena_bytes();
    summary.peak_bytes = process_peak_bytes();
    summary.outputs_saved = outputs_saved_ && metrics_->failures() == 0;
    return summary;
}

}  // namespace cohort
