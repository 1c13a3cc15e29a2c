#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/units.hpp"
#include "train/hooks/step_window.hpp"

namespace cohort {
namespace {

constexpr double kTerminalPeriodSeconds = 0.2;
/// A terminal of 80 columns: the live line leaves the last one free, a line of the log begins with
/// time and level.
constexpr std::size_t kTerminalColumns = 79;
constexpr std::size_t kLogColumns = 61;

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

    /// "45.2 %  loss 0.4366  accuracy 84.27 %  2983/s  eta 0:11". When a worker is slow or lost,
    /// that takes the place of less important parts.
    [[nodiscard]] std::string line(const TrainControl& run) const {
        const double rate = window_.samples_per_s(run.clock().now());
        const std::int64_t done = run.progress().samples_applied;
        const auto left = static_cast<double>(run.budget_samples() - done);
        const ClusterReport cluster = run.cluster();
        const TrainOptions& options = run.options();
        const bool learns = computes_network(options);
        const Parts parts{
            {0, options.compute == TrainOptions().compute ? "" : "[" + options.compute + "]"},
            {1, fmt::format("{:.1f} %", 100 * static_cast<double>(done) /
                                            static_cast<double>(run.budget_samples()))},
            {2, learns ? fmt::format("loss {:.4f}", window_.loss()) : ""},
            {7, learns ? score(run.task()) : ""},
            {8, learns && run.task() == Task::kLanguage ? accuracy() : ""},
            {5, fmt::format("{:.0f}/s", rate)},
            {6, rate > 0 ? "eta " + format_duration(Clock::Seconds(left / rate)) : ""},
            {4, lost(cluster)},
            {3, slow(cluster)},
            {9, lag(cluster)}};
        return fitting(parts, terminal_ ? kTerminalColumns : kLogColumns);
    }

    /// Parts of the line in order, each with its rank; 0 is the most important.
    using Parts = std::vector<std::pair<int, std::string>>;

    /// The most important parts that fit; the others are in metrics.jsonl.
    [[nodiscard]] static std::string fitting(const Parts& parts, std::size_t columns) {
        constexpr std::size_t kGap = 2;
        std::vector<const Parts::value_type*> by_rank;
        for (const auto& part : parts) {
            if (!part.second.empty()) {
                by_rank.push_back(&part);
            }
        }
        std::ranges::sort(by_rank, {}, [](const auto* part) { return part->first; });
        std::size_t used = 0;
        std::erase_if(by_rank, [&](const auto* part) {
            const std::size_t more = part->second.size() + (used > 0 ? kGap : 0);
            const bool fits = used + more <= columns;
            used += fits ? more : 0;
            return !fits;
        });
        std::ranges::sort(by_rank);  // they lie in one array, in order
        std::string line;
        for (const auto* part : by_rank) {
            line += (line.empty() ? "" : std::string(kGap, ' ')) + part->second;
        }
        return line;
    }

    /// "accuracy 91.20 %", of text "perplexity 1.27", of a regression "R2 0.7588".
    [[nodiscard]] std::string score(Task task) const {
        switch (task) {
            case Task::kClassification: break;
            case Task::kLanguage: return fmt::format("perplexity {:.2f}", std::exp(window_.loss()));
            case Task::kRegression: return fmt::format("R2 {:.4f}", r_squared(window_.loss()));
        }
        return accuracy();
    }
    [[nodiscard]] std::string accuracy() const {
        return fmt::format("accuracy {:.2f} %", 100 * window_.accuracy());
    }

    /// "1 lost"; empty: nobody is.
    [[nodiscard]] static std::string lost(const ClusterReport& cluster) {
        const auto lost = static_cast<int>(cluster.workers.size()) - cluster.live();
        return lost > 0 ? fmt::format("{} lost", lost) : "";
    }

    /// "slow: 3 (cpu x1.80) +2": the slowest worker, and how many others are slow; empty: nobody
    /// is.
    [[nodiscard]] static std::string slow(const ClusterReport& cluster) {
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
                          : fmt::format("slow: {}{}", slowest,
                                        others > 0 ? fmt::format(" +{}", others) : "");
    }

    /// "lag 1.88 (worker 3)", the largest; empty with one worker.
    [[nodiscard]] static std::string lag(const ClusterReport& cluster) {
        const auto lag_of = [](const WorkerReport& worker) {
            return worker.live ? worker.lag : -1;
        };
        const auto latest = std::ranges::max_element(cluster.workers, {}, lag_of);
        return cluster.workers.size() < 2 || !latest->live
                   ? ""
                   : fmt::format("lag {:.2f} (worker {})", latest->lag,
                                 latest - cluster.workers.begin());
    }

    bool terminal_;
    std::function<void(const std::string&)> write_;
    StepWindow window_;
    Clock::Seconds drawn_{0};
};

}  // namespace

std::unique_ptr<TrainHook> make_progress_hook(bool terminal,
                                              std::function<void(const std::string&)> write) {
    return std::make_unique<ProgressHook>(terminal, std::move(write));
}

}  // namespace cohort
