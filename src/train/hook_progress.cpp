#include "hook_progress.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "cohort/core/log.hpp"
#include "cohort/core/units.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "step_window.hpp"

namespace cohort {
namespace {

constexpr double kTerminalPeriodSeconds = 0.2;

void wipe_live_line() {
    std::fputs("\r\033[K", stderr);
}

class ProgressHook final : public TrainHook {
public:
    ProgressHook(bool terminal, std::function<void(const std::string&)> write)
        : terminal_(terminal), write_(std::move(write)) {}

    void on_start(TrainControl& run) override {
        window_.restart(run.clock().now());
        drawn_ = run.clock().now();
    }

    void on_step(TrainControl& run, const StepReport& step) override {
        if (!step.applied) {
            return;
        }
        window_.add(step);
        score_ = loss_score_.add(step.result.loss_sum / static_cast<double>(step.result.samples));
        learning_rate_ = step.learning_rate;
        const Clock::Seconds now = run.clock().now();
        const bool window_full = window_.seconds(now) >= run.options().log_every_s;
        if (window_full || (terminal_ && (now - drawn_).count() >= kTerminalPeriodSeconds)) {
            draw(run);
        }
        if (window_full) {
            window_.restart(now);
        }
    }

    void on_evaluation(TrainControl& /*run*/, const EvaluationReport& evaluation) override {
        window_.exclude(evaluation.seconds);
    }

    void on_end(TrainControl& run, StopReason /*reason*/) override {
        if (window_.samples() > 0) {
            draw(run);
        }
    }

private:
    void draw(const TrainControl& run) {
        drawn_ = run.clock().now();
        const double rate = window_.samples_per_s(drawn_);
        const std::int64_t done = run.progress().samples_applied;
        const std::int64_t left = run.budget_samples() - done;
        const std::string eta =
            rate > 0 ? format_duration(Clock::Seconds(static_cast<double>(left) / rate)) : "-";
        write_(fmt::format(
            "epoch {:.2f}  {}/{} samples  loss {:.4f} (z {:+.1f})  accuracy {:.2f} %"
            "  {:.0f} samples/s  lr {:.4g}  eta {}",
            static_cast<double>(done) / static_cast<double>(run.epoch_samples()),
            format_count(static_cast<std::uint64_t>(done)),
            format_count(static_cast<std::uint64_t>(run.budget_samples())), window_.loss(), score_,
            100 * window_.accuracy(), rate, learning_rate_, eta));
    }

    bool terminal_;
    std::function<void(const std::string&)> write_;
    StepWindow window_;
    LossScore loss_score_;
    double score_ = 0;
    double learning_rate_ = 0;
    Clock::Seconds drawn_{0};
};

}  // namespace

std::unique_ptr<TrainHook> make_progress_hook(bool terminal,
                                              std::function<void(const std::string&)> write) {
    return std::make_unique<ProgressHook>(terminal, std::move(write));
}

void draw_live_line(const std::string& line) {
    std::fputs(("\r" + line + "\033[K").c_str(), stderr);
    std::fflush(stderr);
}

LiveLineGuard::LiveLineGuard(bool on) : on_(on) {
    if (on_) {
        set_log_before_line(wipe_live_line);
    }
}

LiveLineGuard::~LiveLineGuard() {
    if (on_) {
        set_log_before_line(nullptr);
        std::fputc('\n', stderr);
    }
}

}  // namespace cohort
