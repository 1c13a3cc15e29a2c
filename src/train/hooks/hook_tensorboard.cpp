#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "records/tensorboard/event_file.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

/// Writes an event file of TensorBoard beside metrics.jsonl, with the same figures. The step is the
/// number of samples applied.
class TensorBoardHook final : public TrainHook {
public:
    /// Errors: FileError when there can be no file.
    void on_start(TrainControl& run) override {
        const std::int64_t samples = run.progress().samples_applied;
        file_.emplace(RunFolder(run.options().out).tensorboard, wall_s(),
                      run.options().resume ? std::optional(samples) : std::nullopt);
        log_info("TensorBoard: {}", file_->path());
        text(samples, "mode", run.cluster().mode);
    }

    void on_window(TrainControl& run, const TrainWindow& window) override {
        std::vector<EventFile::Scalar> values{{"train/learning_rate", window.learning_rate},
                                              {"train/gradient_norm", window.gradient_norm},
                                              {"train/samples_per_s", window.samples_per_s}};
        add_scores(values, "train", scores_of(run.task(), window.accuracy, window.loss));
        const std::vector<WorkerReport>& workers = window.cluster.workers;
        for (std::size_t worker = 0; worker < workers.size(); ++worker) {
            if (workers[worker].live) {
                values.push_back({fmt::format("lag/worker_{}", worker), workers[worker].lag});
            }
            if (workers[worker].live && workers[worker].own_s > 0) {
                values.push_back(
                    {fmt::format("speed/worker_{}", worker),
                     static_cast<double>(run.options().batch) / workers[worker].own_s});
            }
        }
        scalars(window.samples_applied, values);
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        std::vector<EventFile::Scalar> values;
        add_scores(values, "test", scores_of(run.task(), evaluation.accuracy, evaluation.loss));
        scalars(evaluation.samples_applied, values);
    }

    void on_switch(TrainControl& /*run*/, const SwitchReport& change) override {
        if (!change.same_mode()) {  // some modes regroup their workers many times a second
            text(change.samples, "mode", describe(change));
        }
    }

    void on_straggler(TrainControl& run, const StragglerNews::Item& news) override {
        text(run.progress().samples_applied, "stragglers", describe(news));
    }

    void on_rank(TrainControl& run, const RankReport& rank) override {
        text(run.progress().samples_applied, "workers",
             fmt::format("worker {} {}: {}", rank.worker, rank.returned ? "joined" : "lost",
                         rank.reason));
    }

private:
    static double wall_s() {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        return std::chrono::duration<double>(now).count();
    }

    void scalars(std::int64_t step, const std::vector<EventFile::Scalar>& values) {
        write([&](EventFile& file) { file.scalars(step, wall_s(), values); });
    }
    void text(std::int64_t step, std::string_view tag, std::string_view words) {
        write([&](EventFile& file) { file.text(step, wall_s(), tag, words); });
    }

    /// Training goes on without the file when it cannot be written any more.
    template <class Record>
    void write(const Record& record) {
        if (!file_) {
            return;
        }
        try {
            record(*file_);
        } catch (const FileError& error) {
            log_error("{}; the rest of the run is missing there", error.what());
            file_.reset();
        }
    }

    std::optional<EventFile> file_;
};

}  // namespace

std::unique_ptr<TrainHook> make_tensorboard_hook() {
    return std::make_unique<TensorBoardHook>();
}

}  // namespace cohort
