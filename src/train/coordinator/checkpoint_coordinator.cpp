#include "train/coordinator/checkpoint_coordinator.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// A checkpoint that failed is tried again after this, or sooner with a shorter period.
constexpr double kRetrySeconds = 30;

/// Writes the manifest and deletes what is too old; runs on the background thread. Never throws.
CheckpointReport write_one(CheckpointReport report, const RunSnapshot& snapshot, int keep,
                           Hdf5Thread& thread) noexcept {
    const auto start = SteadyClock().now();
    try {
        write_manifest(report.path, snapshot, thread);
    } catch (const std::exception& error) {
        report.error = error.what();
    }
    report.write_seconds += (SteadyClock().now() - start).count();
    if (report.error.empty()) {
        try {
            prune_checkpoints(report.path, keep);
        } catch (const std::exception& error) {
            log_warn("{}", error.what());
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

bool CheckpointCoordinator::due(std::int64_t samples, Clock::Seconds now) const {
    if (running_) {
        return false;
    }
    if (failed_) {
        return now >= retry_at_;
    }
    const std::int64_t every = options_.checkpoint_every_samples;
    const double period = options_.checkpoint_every_s;
    return (every > 0 && samples / every > saved_at_ / every) ||
           (period > 0 && (now - last_time_).count() >= period && samples > saved_at_);
}

std::string CheckpointCoordinator::start(std::int64_t samples) {
    running_ = true;
    path_ = checkpoint_path(folder_, samples);
    snapshot_.reset();
    saved_parts_.assign(static_cast<std::size_t>(parts_), std::nullopt);
    std::error_code ignored;  // a folder that is missing is reported by the write
    std::filesystem::create_directories(folder_, ignored);
    return path_;
}

void CheckpointCoordinator::captured(RunSnapshot snapshot, Clock::Seconds now) {
    snapshot_ = std::move(snapshot);
    captured_at_ = now;
}

void CheckpointCoordinator::saved(const SavedPart& part) {
    const auto index = static_cast<std::size_t>(part.part);
    if (running_ && part.checkpoint == path_ && index < saved_parts_.size()) {
        saved_parts_[index] = part;
    }
}

void CheckpointCoordinator::give_up() {
    running_ = running_ && (snapshot_.has_value() || writing_.valid());
}

std::optional<CheckpointReport> CheckpointCoordinator::collect(Clock::Seconds now) {
    if (writing_.valid()) {
        if (writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
            return std::nullopt;
        }
        return finish(writing_.get(), now);
    }
    if (!running_ || !snapshot_ || !missing().empty()) {
        return std::nullopt;
    }
    CheckpointReport report{.path = path_, .samples_applied = snapshot_->progress.samples_applied};
    for (const auto& part : saved_parts_) {
        report.pause_seconds = std::max(report.pause_seconds, part->pause_s);
        report.write_seconds = std::max(report.write_seconds, part->write_s);
        report.error += (report.error.empty() || part->error.empty() ? "" : "; ") + part->error;
        if (part->error.empty()) {
            snapshot_->shards.push_back(part->file);
        }
    }
    if (!report.error.empty()) {
        discard_shards(path_, snapshot_->shards);
        return finish(std::move(report), now);
    }
    try {
        writing_ =
            std::async(std::launch::async,
                       [report, snapshot = std::move(*snapshot_), keep = options_.keep_checkpoints,
                        &thread = thread_] { return write_one(report, snapshot, keep, thread); });
    } catch (const std::system_error& error) {  // no thread to be had
        report.error = std::string("[background thread] ") + error.what();
        return finish(std::move(report), now);
    }
    return std::nullopt;
}

/// Only a success moves the time of the next one.
CheckpointReport CheckpointCoordinator::finish(CheckpointReport report, Clock::Seconds now) {
    running_ = false;
    snapshot_.reset();
    failed_ = !report.error.empty();
    if (failed_) {
        log_error("the checkpoint could not be saved; training goes on: {}", report.error);
        const double period = options_.checkpoint_every_s;
        retry_at_ =
            now + Clock::Seconds(period > 0 ? std::min(period, kRetrySeconds) : kRetrySeconds);
    } else {
        saved_once_ = true;
        saved_at_ = report.samples_applied;
        last_time_ = captured_at_;
    }
    return report;
}

bool CheckpointCoordinator::wanted_at_end(StopReason reason, std::int64_t samples) const {
    const bool wanted = reason == StopReason::kSignal || options_.checkpoint_every_s > 0 ||
                        options_.checkpoint_every_samples > 0;
    return wanted && (saved_at_ != samples || failed_ || !saved_once_);
}

std::vector<int> CheckpointCoordinator::missing() const {
    std::vector<int> missing;
    for (std::size_t i = 0; i < saved_parts_.size(); ++i) {
        if (!saved_parts_[i]) {
            missing.push_back(static_cast<int>(i));
        }
    }
    return missing;
}

}  // namespace cohort
