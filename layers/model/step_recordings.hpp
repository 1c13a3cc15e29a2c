#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/log.hpp"

namespace cohort {

/// The recorded pieces of an executor's runs. The first run of a kind queues every kernel, so that
/// libraries load what they need; the second records its pieces, which later ones queue at once.
class StepRecordings {
public:
    /// Batch size, with an observer, without a loss, channels of samples as they are stored (0:
    /// they are not). All else that recorded work depends on is the
    /// same in every run of an executor, or is read on the device.
    using RunKind = std::tuple<std::int64_t, bool, bool, std::int64_t>;

    /// @param enabled  false: nothing is recorded
    StepRecordings(Stream& stream, std::string network, bool enabled)
        : stream_(stream), network_(std::move(network)), enabled_(enabled) {}

    /// A run begins. Recordings know the arena's address: another one makes them void.
    void start(const RunKind& kind, const std::byte* arena) {
        if (std::exchange(arena_, arena) != arena) {
            for (auto& [any, recorded] : recorded_) {
                recorded.pieces.clear();
            }
        }
        run_ = &recorded_[kind];
        complete_ = false;
        one_by_one_ = false;
    }
    /// Frees all recordings of a batch size; not during a run.
    void forget(std::int64_t batch) {
        run_ = nullptr;
        std::erase_if(recorded_,
                      [batch](const auto& entry) { return std::get<0>(entry.first) == batch; });
    }
    /// The run has reached its end.
    void finish() {
        run_->ran = true;
        complete_ = !one_by_one_;
    }
    /// The last run has reached its end, and all of its pieces were queued as recordings.
    [[nodiscard]] bool complete() const noexcept { return complete_; }

    /// Queues piece `index` of the run, recorded if possible and allowed.
    /// @param queue_work  queues it kernel by kernel
    void queue(std::size_t index, bool allowed, const std::function<void()>& queue_work) {
        if (allowed && index < run_->pieces.size()) {
            run_->pieces[index]->queue();
        } else if (!allowed || !enabled_ || !run_->ran || !record_and_queue(queue_work)) {
            one_by_one_ = true;
            queue_work();
        }
    }

    /// Pieces of work that the last run's recordings consist of; 0: it was not recorded.
    [[nodiscard]] std::size_t size() const {
        std::size_t sum = 0;
        if (run_ != nullptr) {
            for (const std::unique_ptr<Recording>& piece : run_->pieces) {
                sum += piece->size();
            }
        }
        return sum;
    }

private:
    struct Recorded {
        bool ran = false;  ///< once at least
        std::vector<std::unique_ptr<Recording>> pieces;
    };

    /// False: that cannot be done, nothing is queued.
    bool record_and_queue(const std::function<void()>& queue_work) {
        std::unique_ptr<Recording> recording;
        try {
            recording = record(queue_work);
        } catch (const std::exception& error) {
            log_warn("Steps of {} cannot be recorded, their kernels are queued one by one: {}",
                     network_, error.what());
        }
        if (recording == nullptr) {
            enabled_ = false;
            return false;
        }
        recording->queue();
        run_->pieces.push_back(std::move(recording));
        return true;
    }
    /// nullptr: this device cannot. Errors: what keeps the piece from being recorded; nothing of it
    /// is queued then, and the stream records no longer.
    std::unique_ptr<Recording> record(const std::function<void()>& queue_work) {
        if (!stream_.begin_recording()) {
            return nullptr;
        }
        try {
            queue_work();
        } catch (...) {
            try {
                static_cast<void>(stream_.end_recording());
            } catch (const DeviceError&) {  // the first error counts
            }
            throw;
        }
        return stream_.end_recording();
    }

    Stream& stream_;
    std::string network_;
    bool enabled_;
    std::map<RunKind, Recorded> recorded_;
    const std::byte* arena_ = nullptr;
    Recorded* run_ = nullptr;  ///< of the run in progress
    bool one_by_one_ = false;  ///< a piece of it was queued kernel by kernel
    bool complete_ = false;
};

}  // namespace cohort
