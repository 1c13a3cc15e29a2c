#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/options.hpp"
#include "core/system/run_lock.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"

namespace cohort {

/// The output folder, once the run has locked it: only then its files are this run's.
class OwnedFolder {
public:
    /// @param options  outlive it
    explicit OwnedFolder(const TrainOptions& options) : options_(options) {}

    /// Errors: see prepare_run_folder.
    void lock() {
        lock_.emplace(prepare_run_folder(options_));
        owned_ = true;
    }
    /// Whether it is time to look whether the folder is still there.
    [[nodiscard]] bool due(Clock::Seconds now, Clock::Seconds period) {
        const bool due = now - looked_at_ >= period;
        looked_at_ = due ? now : looked_at_;
        return due;
    }
    /// RunLock::restore().
    bool restore() { return lock_->restore(); }
    /// From any thread.
    [[nodiscard]] bool owned() const noexcept { return owned_; }
    /// Leaves the last line of metrics.jsonl when the job ends because of a lost rank. From any
    /// thread; does not wait.
    void record_failure(ExitCode code, const std::string& reason) const noexcept {
        if (owned_) {
            append_line(RunFolder(options_.out).metrics,
                        failure_json(static_cast<int>(code), reason));
        }
    }
    void write_exit_code(ExitCode code, const std::string& reason) const noexcept {
        if (owned_) {
            cohort::write_exit_code(options_.out, code, reason);
        }
    }

private:
    const TrainOptions& options_;
    std::optional<RunLock> lock_;
    Clock::Seconds looked_at_{0};
    std::atomic<bool> owned_{false};
};

}  // namespace cohort
