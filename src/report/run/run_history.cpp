#include "report/run/run_history.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Collects the records of a run.
class HistoryReader final : public RunLogVisitor {
public:
    explicit HistoryReader(RunHistory& run) : run_(run) {}

    void on_start(const RunHeader& start) override {
        run_.parts.push_back({.header = start, .begin_s = run_.end_s});
        run_.summary.reset();
        run_.failure.reset();
        end_slowness();
    }
    void on_train(const TrainLine& window) override {
        need_start();
        run_.columns.add(run_.end_s, window);
        reach(window.train_s, window.samples_applied);
        begin_plan(window.mode);
    }
    void on_evaluation(const RunEvaluation& evaluation) override {
        need_start();
        run_.evaluations.push_back(evaluation);
        reach(evaluation.train_s, evaluation.samples_applied);
    }
    void on_change(const SwitchReport& change) override {
        need_start();
        begin_plan(change.from);
        run_.changes.push_back(change);
    }
    void on_decision(const DecisionRecord& decision) override {
        run_.decisions.push_back(decision);
    }
    void on_straggler(const StragglerEpisode& slow, bool over) override {
        if (over) {
            slow_now_.erase(slow.worker);
            run_.slow.push_back(slow);
        } else {
            slow_now_[slow.worker] = slow;
        }
    }
    void on_rank(const RankChange& change) override { run_.ranks.push_back(change); }
    void on_checkpoint(const RunCheckpoint& checkpoint) override {
        run_.checkpoints.push_back(checkpoint);
    }
    void on_dropped(const DroppedBatch& batch) override { run_.dropped.push_back(batch); }
    void on_failure(const RunFailure& failure) override { run_.failure = failure; }
    void on_summary(const RunSummary& summary) override { run_.summary = summary; }

    /// The file is at its end.
    void end() {
        need_start();
        for (RunPart& part : run_.parts) {
            part.plan = part.plan.empty() ? part.header.mode : part.plan;
        }
        end_slowness();
        std::ranges::stable_sort(run_.slow, {}, &StragglerEpisode::begin_s);
    }

private:
    void need_start() const {
        if (run_.parts.empty()) {
            fail<FileError>({.where = run_.file,
                             .what = "no run starts in this file",
                             .expected = "a first line with the event start",
                             .hint = "a folder that cohort train has written"});
        }
    }

    void begin_plan(const std::string& plan) {
        std::string& known = run_.parts.back().plan;
        known = known.empty() ? plan : known;
    }

    void reach(double train_s, std::int64_t samples) {
        run_.end_s = std::max(run_.end_s, train_s);
        run_.samples_applied = std::max(run_.samples_applied, samples);
    }

    /// Workers that are still slow have been so until now.
    void end_slowness() {
        for (auto& [worker, slow] : slow_now_) {
            slow.end_s = std::max(slow.end_s, run_.end_s);
            run_.slow.push_back(slow);
        }
        slow_now_.clear();
    }

    RunHistory& run_;
    std::map<int, StragglerEpisode> slow_now_;  ///< by worker
};

}  // namespace

std::string RunHistory::mode() const {
    std::string modes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string& own = parts[i].header.mode;
        if (i == 0 || own != parts[i - 1].header.mode) {
            modes += (modes.empty() ? "" : ", then ") + own;
        }
    }
    return modes;
}

int RunHistory::workers() const {
    const auto of = [](const RunPart& part) { return part.header.workers; };
    return std::ranges::max(parts, {}, of).header.workers;
}

bool RunHistory::regression() const {
    return !evaluations.empty() && !std::isnan(evaluations.front().r2);
}

std::vector<LostSpan> lost_spans(const RunHistory& run) {
    std::vector<LostSpan> spans;
    for (const RankChange& change : run.ranks) {
        if (!change.joined) {
            spans.push_back({.worker = change.worker,
                             .begin_s = change.train_s,
                             .end_s = std::max(change.train_s, run.end_s),
                             .reason = change.reason});
            continue;
        }
        const auto lost = std::find_if(spans.rbegin(), spans.rend(), [&](const LostSpan& span) {
            return span.worker == change.worker && !span.joined;
        });
        if (lost != spans.rend()) {
            lost->end_s = change.train_s;
            lost->joined = true;
        }
    }
    return spans;
}

double test_quality(const RunEvaluation& evaluation) {
    return std::isnan(evaluation.r2) ? evaluation.accuracy : evaluation.r2;
}

bool RunLevel::reached_by(const RunEvaluation& evaluation) const {
    return loss ? evaluation.loss <= value : test_quality(evaluation) >= value;
}

std::optional<RunLevel> own_target(const RunHistory& run) {
    const RunHeader& last = run.parts.back().header;
    if (last.target_accuracy) {
        return RunLevel{.value = *last.target_accuracy};
    }
    if (last.target_loss) {
        return RunLevel{.value = *last.target_loss, .loss = true};
    }
    return std::nullopt;
}

std::optional<double> time_to(const RunHistory& run, const RunLevel& level) {
    const auto found = std::ranges::find_if(
        run.evaluations, [&](const RunEvaluation& one) { return level.reached_by(one); });
    return found == run.evaluations.end() ? std::nullopt : std::optional(found->train_s);
}

RunHistory read_run(const std::string& path) {
    namespace fs = std::filesystem;
    RunHistory run;
    std::error_code ignored;
    run.file = fs::is_directory(path, ignored) ? (fs::path(path) / kMetricsFile).string() : path;
    run.label = fs::weakly_canonical(run.file, ignored).parent_path().filename().string();
    HistoryReader reader(run);
    run.torn = !RunLogReader(run.file).read_file(reader);
    reader.end();
    return run;
}

std::vector<RunHistory> read_runs(const std::vector<std::string>& paths) {
    std::vector<RunHistory> runs;
    std::set<std::filesystem::path> files;
    std::map<std::string, int> labels;
    for (const std::string& path : paths) {
        const RunHistory& run = runs.emplace_back(read_run(path));
        if (!files.insert(std::filesystem::weakly_canonical(run.file)).second) {
            fail<UsageError>(
                {.where = path, .what = "the same run is given twice", .hint = "each run once"});
        }
        ++labels[run.label];
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (labels[runs[i].label] > 1) {
            runs[i].label = paths[i];
        }
    }
    return runs;
}

}  // namespace cohort
