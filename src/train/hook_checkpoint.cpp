#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "cohort/train/snapshot.hpp"

namespace cohort {
namespace {

/// A failed write is tried again after this, or sooner with a shorter period.
constexpr double kRetrySeconds = 30;
/// A wait for a write as long as this is worth a warning.
constexpr int kStallSeconds = 30;

/// Writes one snapshot; runs on the background thread. Never throws.
CheckpointReport write_one(const std::string& folder, const TrainSnapshot& snapshot, int keep,
                           Hdf5Thread& thread) noexcept {
    CheckpointReport report;
    const auto start = SteadyClock().now();
    try {
        report.samples_applied = snapshot.progress.samples_applied;
        report.path = checkpoint_path(folder, snapshot.progress.samples_applied);
        std::error_code ignored;  // a folder that is missing is reported by the write
        std::filesystem::create_directories(folder, ignored);
        write_checkpoint(report.path, snapshot, thread);
    } catch (const std::exception& error) {
        report.error = error.what();
    }
    report.write_seconds = (SteadyClock().now() - start).count();
    if (report.error.empty()) {
        try {
            prune_checkpoints(report.path, keep);
        } catch (const std::exception& error) {
            log_warn("{}", error.what());
        }
    }
    return report;
}

class CheckpointHook final : public TrainHook {
public:
    CheckpointHook(std::string folder, Hdf5Thread& thread)
        : folder_(std::move(folder)), thread_(thread) {}

    void on_start(TrainControl& run) override {
        saved_at_ = run.progress().samples_applied;
        last_time_ = run.clock().now();
    }

    void on_step(TrainControl& run, const StepReport& /*step*/) override {
        collect(run, false);
        if (due(run) && !writing_.valid()) {
            start(run);
        }
    }

    void on_end(TrainControl& run, StopReason reason) override {
        collect(run, true);
        const bool wanted = reason == StopReason::kSignal || run.options().checkpoint_every_s > 0 ||
                            run.options().checkpoint_every_samples > 0;
        if (wanted && (saved_at_ != run.progress().samples_applied || failed_ || !saved_)) {
            start(run);
            collect(run, true);
        }
    }

private:
    [[nodiscard]] bool due(const TrainControl& run) const {
        if (failed_) {
            return run.clock().now() >= retry_at_;
        }
        const std::int64_t every = run.options().checkpoint_every_samples;
        const std::int64_t now = run.progress().samples_applied;
        const double period = run.options().checkpoint_every_s;
        return (every > 0 && now / every > saved_at_ / every) ||
               (period > 0 && (run.clock().now() - last_time_).count() >= period &&
                now > saved_at_);
    }

    void start(TrainControl& run) {
        const auto begin = run.clock().now();
        auto snapshot = std::make_shared<const TrainSnapshot>(run.snapshot());
        copied_at_ = run.clock().now();
        copied_samples_ = snapshot->progress.samples_applied;
        pause_seconds_ = (copied_at_ - begin).count();
        try {
            writing_ = std::async(std::launch::async,
                                  [this, snapshot, keep = run.options().keep_checkpoints] {
                                      return write_one(folder_, *snapshot, keep, thread_);
                                  });
        } catch (const std::system_error& error) {  // no thread to be had
            settle(run, {.path = checkpoint_path(folder_, copied_samples_),
                         .samples_applied = copied_samples_,
                         .error = std::string("[background thread] ") + error.what()});
        }
    }

    /// Reports a finished write; `wait` waits for it and says so when that takes long.
    void collect(TrainControl& run, bool wait) {
        if (!writing_.valid()) {
            return;
        }
        const std::chrono::seconds limit(wait ? kStallSeconds : 0);
        for (int waited = 0; writing_.wait_for(limit) != std::future_status::ready;) {
            if (!wait) {
                return;
            }
            waited += kStallSeconds;
            log_warn("waiting for a checkpoint for {} s: {} is being written", waited,
                     checkpoint_path(folder_, copied_samples_));
        }
        settle(run, writing_.get());
    }

    /// What became of the write of the last snapshot. Only a success moves the time of the next.
    void settle(TrainControl& run, CheckpointReport report) {
        report.pause_seconds = pause_seconds_;
        failed_ = !report.error.empty();
        if (failed_) {
            log_error("the checkpoint could not be saved; training goes on: {}", report.error);
            const double period = run.options().checkpoint_every_s;
            retry_at_ =
                run.clock().now() +
                Clock::Seconds(period > 0 ? std::min(period, kRetrySeconds) : kRetrySeconds);
        } else {
            saved_ = true;
            saved_at_ = report.samples_applied;
            last_time_ = copied_at_;
        }
        run.report_checkpoint(report);
    }

    std::string folder_;
    Hdf5Thread& thread_;
    std::int64_t saved_at_ = 0;        ///< samples applied in the last checkpoint
    Clock::Seconds last_time_{0};      ///< of its copy
    std::int64_t copied_samples_ = 0;  ///< of the snapshot being written
    Clock::Seconds copied_at_{0};      ///< of the snapshot being written
    Clock::Seconds retry_at_{0};       ///< after a failure
    double pause_seconds_ = 0;
    bool failed_ = false;                    ///< the last write failed
    bool saved_ = false;                     ///< one write of this run succeeded
    std::future<CheckpointReport> writing_;  ///< last member: waits before the others go
};

}  // namespace

std::unique_ptr<TrainHook> make_checkpoint_hook(std::string folder, Hdf5Thread& thread) {
    return std::make_unique<CheckpointHook>(std::move(folder), thread);
}

}  // namespace cohort
