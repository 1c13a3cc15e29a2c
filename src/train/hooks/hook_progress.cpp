#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/units.hpp"
#include "train/hooks/step_window.hpp"

namespace cohort {
namespace {

constexpr double kTerminalPeriodSeconds = 0.2;

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
            if (terminal_) {
                log_info("{}", line(run));  // stays on the terminal, unlike a live line
            } else {
                write_(line(run));
            }
        }
    }

private:
    void draw(const TrainControl& run) {
        drawn_ = run.clock().now();
        write_(line(run));
    }

    /// The most important numbers come first: a terminal of 80 columns shows the line up to the
    /// remaining time.
    [[nodiscard]] std::string line(const TrainControl& run) const {
        const double rate = window_.samples_per_s(run.clock().now());
        const std::int64_t done = run.progress().samples_applied;
        const std::int64_t left = run.budget_samples() - done;
        const std::string eta =
            rate > 0 ? format_duration(Clock::Seconds(static_cast<double>(left) / rate)) : "-";
        return fmt::format(
            "{}{}/{}  loss {:.4f}{}  {:.0f} samples/s  eta {}{}  lr {:.4g}"
            "  epoch {:.2f}  loss z {:+.1f}",
            run.options().compute == TrainOptions().compute ? ""
                                                            : "[" + run.options().compute + "] ",
            format_count(static_cast<std::uint64_t>(done)),
            format_count(static_cast<std::uint64_t>(run.budget_samples())), window_.loss(),
            beside_loss(run.task()), rate, eta, workers(run.cluster()), learning_rate_,
            static_cast<double>(done) / static_cast<double>(run.epoch_samples()), score_);
    }

    /// "  accuracy 91.20 %", "  perplexity 1.27  accuracy 91.20 %" or "  R2 0.7588".
    [[nodiscard]] std::string beside_loss(Task task) const {
        if (task == Task::kRegression) {
            return fmt::format("  R2 {:.4f}", r_squared(window_.loss()));
        }
        return fmt::format("{}  accuracy {:.2f} %",
                           task == Task::kLanguage
                               ? fmt::format("  perplexity {:.2f}", std::exp(window_.loss()))
                               : "",
                           100 * window_.accuracy());
    }

    /// "  lag 1.88 (worker 3)  2 waiting  7 live, 1 lost"; empty with one worker.
    [[nodiscard]] static std::string workers(const ClusterReport& cluster) {
        if (cluster.workers.size() < 2) {
            return "";
        }
        std::size_t latest = 0;
        for (std::size_t i = 0; i < cluster.workers.size(); ++i) {
            const WorkerReport& worker = cluster.workers[i];
            latest = worker.live && worker.lag > cluster.workers[latest].lag ? i : latest;
        }
        const int live = cluster.live();
        const auto lost = static_cast<int>(cluster.workers.size()) - live;
        return fmt::format("  lag {:.2f} (worker {})  {} waiting  {} live{}{}",
                           cluster.workers[latest].lag, latest, cluster.pending, live,
                           lost > 0 ? fmt::format(", {} lost", lost) : "", stragglers(cluster));
    }

    /// "  slow: 3 (cpu x1.80) and 2 more"; empty without stragglers.
    [[nodiscard]] static std::string stragglers(const ClusterReport& cluster) {
        std::string slowest;
        double most = 0;
        int others = -1;
        for (std::size_t i = 0; i < cluster.loads.size(); ++i) {
            const std::optional<StragglerEpisode>& slow = cluster.loads[i].slow;
            others += slow ? 1 : 0;
            if (slow && slow->slowdown > most) {
                most = slow->slowdown;
                slowest = fmt::format("{} ({})", i, describe(*slow));
            }
        }
        return others < 0 ? ""
                          : fmt::format("  slow: {}{}", slowest,
                                        others > 0 ? fmt::format(" and {} more", others) : "");
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

}  // namespace cohort
