#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "layers/model/executor.hpp"

namespace cohort {

/// The device's times of a run: of the whole, and of each layer while profiling.
class StepTimer {
public:
    StepTimer(Stream& stream, std::size_t nodes) : stream_(stream), layers_(nodes) {}

    void set_profiling(bool on) {
        profiling_ = on;
        if (on) {
            layers_.clear();
        }
    }
    [[nodiscard]] bool profiling() const noexcept { return profiling_; }
    [[nodiscard]] const LayerTimes& layers() const noexcept { return layers_; }
    /// Of the last run.
    [[nodiscard]] std::optional<double> seconds() const noexcept { return seconds_; }

    void start_run() {
        seconds_.reset();
        marks_.clear();
        start_ = stream_.record();
    }
    /// A step of the run in progress is queued; none: a piece begins.
    void mark(const Step* step) {
        if (profiling_) {
            marks_.push_back({step, stream_.record()});
        }
    }
    /// Waits until the piece before the one before `index` has ended.
    void wait_for_piece(std::size_t index) {
        if (index >= ends_.size()) {
            ends_[index % ends_.size()]->wait();
        }
    }
    void end_piece(std::size_t index) { ends_[index % ends_.size()] = stream_.record(); }
    /// After the end of piece `last` was waited for.
    void finish_run(std::size_t last) {
        seconds_ = ends_[last % ends_.size()]->seconds_since(*start_);
        for (std::size_t i = 1; i < marks_.size(); ++i) {
            const Step* step = marks_[i].step;
            if (step != nullptr && step->kind != StepKind::kLoss) {
                layers_.add(*step, marks_[i].event->seconds_since(*marks_[i - 1].event));
            }
        }
        marks_.clear();
    }

private:
    /// The device's time when a step was done; no step: when a piece began.
    struct Mark {
        const Step* step;
        std::unique_ptr<Event> event;
    };

    Stream& stream_;
    LayerTimes layers_;
    bool profiling_ = false;
    std::optional<double> seconds_;
    std::unique_ptr<Event> start_;
    std::array<std::unique_ptr<Event>, 2> ends_;  ///< of the last two pieces
    std::vector<Mark> marks_;
};

}  // namespace cohort
