#include "train/coordinator/checkpoint/checkpoint_coordinator.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/failure_text.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// A checkpoint that failed is tried again after this, or sooner with a shorter period.
constexpr double kRetrySeconds = 30;
/// What a loss before the first checkpoint costs at most; no later interval is shorter.
constexpr double kFirstSeconds = 60;

/// Writes the manifest and deletes what is too old; runs on the background thread. Never throws.
CheckpointReport write_one(CheckpointReport report, const RunSnapshot& snapshot, int keep,
                           Hdf5Thread& thread) noexcept {
    const auto start = SteadyClock().now();
    try {
        write_manifest(report.path, snapshot, thread);
    } catch (const std::exception& error) {
        report.error = failure_text(error);
    }
    report.write_seconds += (SteadyClock().now() - start).count();
    if (report.error.empty()) {
        try {
            prune_checkpoints(report.path, keep);
        } catch (const std::exception& error) {
            log_warn("{}", failure_text(error));
        }
    }
    return report;
}

}  // namespace

CheckpointCoordinator::CheckpointCoordinator(const TrainOptions& options, std::string folder,
                                             int parts, Hdf5Thread& thread)
    : options_(options), folder_(std::move(folder)), parts_(parts), thread_(thread) {
}

void CheckpointCoordinator::begin(std::int64_t samples, Clock::Seconds now) {
    saved_at_ = samples;
    last_time_ = now;
}

/// The interval that loses least, sqrt(2 C M): a checkpoint costs C, a failure every M seconds on
/// average costs half an interval (Young 1974, Daly 2006). Writing in the background counts as if
/// training stood still, so the whole costs at most sqrt(2 C / M) of the time where
/// --checkpoint-every-s does not shorten the interval.
double CheckpointCoordinator::period_s() const {
    constexpr double kFailureSeconds = 24 * 3600;  // of a job, a guess
    const double least_lost = std::sqrt(2 * cost_s_ * kFailureSeconds);
    return std::min(std::max(least_lost, kFirstSeconds), options_.checkpoint_every_s);
}

bool CheckpointCoordinator::due(std::int64_t samples, Clock::Seconds now) const {
    if (attempt_) {
        return false;
    }
    if (retry_at_) {
        return now >= *retry_at_;
    }
    const std::int64_t every = options_.checkpoint_every_samples;
    const double period = period_s();
    return (every > 0 && samples / every > saved_at_ / every) ||
           (period > 0 && (now - last_time_).count() >= period && samples > saved_at_);
}

std::string CheckpointCoordinator::start(std::int64_t samples) {
    attempt_.emplace(checkpoint_path(folder_, samples), parts_);
    std::error_code ignored;  // a folder that is missing is reported by the write
    std::filesystem::create_directories(folder_, ignored);
    return attempt_->path;
}

void CheckpointCoordinator::captured(RunSnapshot snapshot, Clock::Seconds now) {
    attempt_->snapshot = std::move(snapshot);
    attempt_->captured_at = now;
}

void CheckpointCoordinator::saved(const SavedPart& part) {
    if (attempt_) {
        attempt_->saved(part);
    }
}

void CheckpointCoordinator::give_up() {
    if (attempt_ && !attempt_->snapshot && !writing_.valid()) {
        attempt_.reset();
    }
}

std::optional<CheckpointReport> CheckpointCoordinator::collect(Clock::Seconds now) {
    if (writing_.valid()) {
        if (writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
            return std::nullopt;
        }
        return finish(writing_.get(), now);
    }
    if (!attempt_ || !attempt_->snapshot || !missing().empty()) {
        return std::nullopt;
    }
    RunSnapshot& snapshot = *attempt_->snapshot;
    CheckpointReport report{.path = attempt_->path,
                            .samples_applied = snapshot.progress.samples_applied};
    for (const auto& part : attempt_->parts) {
        report.pause_seconds = std::max(report.pause_seconds, part->pause_s);
        report.write_seconds = std::max(report.write_seconds, part->write_s);
        report.error += (report.error.empty() || part->error.empty() ? "" : "; ") + part->error;
        if (part->error.empty()) {
            snapshot.shards.push_back(part->file);
        }
    }
    if (!report.error.empty()) {
        discard_shards(report.path, snapshot.shards);
        return finish(std::move(report), now);
    }
    const auto write = [report, snapshot = std::move(snapshot), keep = options_.keep_checkpoints,
                        &thread = thread_] { return write_one(report, snapshot, keep, thread); };
    try {
        writing_ = std::async(std::launch::async, write);
    } catch (const std::system_error&) {  // The system has no thread left: the run waits.
        return finish(write(), now);
    }
    return std::nullopt;
}

/// Only a success moves the time of the next one.
CheckpointReport CheckpointCoordinator::finish(CheckpointReport report, Clock::Seconds now) {
    const Clock::Seconds captured_at = std::exchange(attempt_, std::nullopt)->captured_at;
    retry_at_.reset();
    cost_s_ = report.pause_seconds + report.write_seconds;
    if (!report.error.empty()) {
        log_error("the checkpoint could not be saved; training goes on: {}", report.error);
        const double period = options_.checkpoint_every_s;
        retry_at_ =
            now + Clock::Seconds(period > 0 ? std::min(period, kRetrySeconds) : kRetrySeconds);
    } else {
        saved_once_ = true;
        saved_at_ = report.samples_applied;
        last_time_ = captured_at;
    }
    return report;
}

bool CheckpointCoordinator::wanted_at_end(StopReason reason, std::int64_t samples) const {
    const bool wanted = reason == StopReason::kSignal || options_.checkpoint_every_s > 0 ||
                        options_.checkpoint_every_samples > 0;
    return wanted && (saved_at_ != samples || retry_at_ || !saved_once_);
}

}  // namespace cohort
