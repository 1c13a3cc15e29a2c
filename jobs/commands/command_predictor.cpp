#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cohort/optim/learning_options.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sim/result/replay.hpp"
#include "train/fit/predictor_trainer.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMostTrainingCount = 1'000'000;

void declare_runs(CLI::App& app, std::vector<std::string>& runs) {
    app.add_option(
           "runs,--runs", runs,
           "Recorded runs: folders of cohort simulate --record-load --out DIR, files of cohort "
           "train --record-load FILE; required")
        ->type_name("PATH...");
}

void require_runs(const std::vector<std::string>& folders) {
    need(!folders.empty(), "--runs", "no recorded run is given", "folders or files",
         "cohort simulate --record-load --out DIR");
}

/// All own times are about the same.
bool is_quiet(const PredictorSeries& series) {
    constexpr float kAlike = 0.1F;  ///< of the logarithm
    const auto less = [](const LstmFeatures& a, const LstmFeatures& b) {
        return a[LstmModel::kTime] < b[LstmModel::kTime];
    };
    const auto [least, most] =
        std::minmax_element(series.features.begin(), series.features.end(), less);
    return least == most || (*most)[LstmModel::kTime] - (*least)[LstmModel::kTime] < kAlike;
}

class PredictorTrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_runs(app, runs_);
        out_.declare(app, "--out", "The model to write (see docs/prediction.md); required");
        value(app, "--epochs", options_.epochs, "Passes over the records, at most",
              {.least = 1, .most = kMostTrainingCount});
        value(app, "--patience", options_.patience,
              "Epochs without a better error on series held out that end the training",
              {.least = 1, .most = kMostTrainingCount});
        value(app, "--batch", options_.batch, "Windows of records in a step",
              {.least = 1, .most = kMostTrainingCount});
        value(app, "--stride", options_.stride, "Records from one window's start to the next",
              {.least = 1, .most = kMostTrainingCount});
        value(app, "--lr", options_.lr, "Learning rate at the beginning", kLearningRateLimits);
        value(app, "--noise", noise_,
              "Deviation of noise on every second worker's times and rates: real machines have "
              "some, virtual ones none",
              {.least = 0, .most = 10});
        value(app, "--held-out", options_.held_out, "Share of the series that only judge",
              {.least = 0, .most = 1, .ends = Limits<double>::Ends::kNotMost});
        value(app, "--seed", options_.seed, "Of initial parameters and order", kSeedLimits);
        value(app, "--threads", options_.threads, "That compute", kSomeThreadsLimits);
    }

    ExitCode run(const CommandContext& context) override {
        need(out_.given(), "cohort predictor train", "a file for the model is needed",
             "--out FILE");
        require_runs(runs_);
        const OutputFile file = out_.check(context, files_of_runs(runs_));
        std::vector<RecordedLoad> runs;
        std::ranges::transform(runs_, std::back_inserter(runs), read_recorded_load);
        const std::vector<PredictorSeries> series = lessons(runs);
        std::size_t records = 0;
        for (const PredictorSeries& each : series) {
            records += each.features.size();
        }
        log_info("{} series of {} records from {}", series.size(), format_count(records),
                 counted(runs.size(), "run"));
        const LstmModel model =
            train_predictor(series, options_, [](const PredictorProgress& progress) {
                log_info("epoch {}: error {:.4f}, held out {:.4f} (of the time {:.4f}){}",
                         progress.epoch, progress.training_error, progress.held_out.all,
                         progress.held_out.time, progress.best ? ", the best so far" : "");
            });
        write_predictor(file, {.model = model,
                               .trained_on = fmt::format("{} records of {} runs, seed {}", records,
                                                         runs.size(), options_.seed)});
        print_line("{}: trained on {} records", out_.path(), records);
        return ExitCode::kDone;
    }

private:
    /// Series in which nothing happens are all alike: few of them are enough.
    [[nodiscard]] std::vector<PredictorSeries> lessons(
        const std::vector<RecordedLoad>& runs) const {
        constexpr std::size_t kQuietKept = 8;  ///< one of so many
        std::vector<PredictorSeries> series;
        std::size_t quiet = 0;
        for (std::size_t run = 0; run < runs.size(); ++run) {
            const RecordNoise noise{.deviation = noise_, .seed = options_.seed + (run << 8U)};
            const std::vector<PredictorSeries> plain = series_of(runs[run]);
            std::vector<PredictorSeries> noisy = series_of(runs[run], noise);
            for (std::size_t i = 0; i < plain.size(); ++i) {
                if (!is_quiet(plain[i]) || quiet++ % kQuietKept == 0) {
                    series.push_back(std::move(noisy[i]));
                }
            }
        }
        return series;
    }

    PredictorTrainingOptions options_;
    double noise_ = 0.03;
    std::vector<std::string> runs_;
    OutputOption out_;
};

/// Scores by what happened in the run, predictor, horizon.
using ScoreTable = std::map<std::string, std::vector<PredictorScore>>;

class PredictorScoreCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_runs(app, runs_);
        app.add_option("--model", model_, "Of lstm and auto; empty: the shipped one")
            ->type_name("FILE");
        value(app, "--predictors", predictors_, "Which, with commas; oracle: knows the trace")
            ->type_name("LIST");
        app.add_flag("--json", json_, "Lines of JSON in place of a table");
    }

    ExitCode run(const CommandContext& /*context*/) override {
        require_runs(runs_);
        const std::vector<std::string> names = CLI::detail::split(predictors_, ',');
        ScoreTable table;
        for (const std::string& folder : runs_) {
            const RecordedLoad load = read_recorded_load(folder);
            add(load, names, table[load.what]);
        }
        json_ ? print_json(table) : print_table(table);
        return ExitCode::kDone;
    }

private:
    void add(const RecordedLoad& load, const std::vector<std::string>& names,
             std::vector<PredictorScore>& scores) const {
        for (const std::string& name : names) {
            const std::unique_ptr<Predictor> predictor = make_replay_predictor(load, name, model_);
            for (const PredictorScore& score :
                 replay_scores(*predictor, load.records, load.workers, load.batch)) {
                const auto known =
                    std::find_if(scores.begin(), scores.end(), [&](const PredictorScore& each) {
                        return each.predictor == score.predictor && each.horizon == score.horizon;
                    });
                if (known == scores.end()) {
                    scores.push_back(score);
                } else {
                    known->merge(score);
                }
            }
        }
    }

    static void print_table(const ScoreTable& table) {
        print_line("{:<16} {:<10} {:>6} {:>12} {:>8} {:>10} {:>8} {:>8}", "run", "predictor",
                   "ahead", "predictions", "error", "precision", "recall", "F1");
        for (const auto& [what, scores] : table) {
            for (const PredictorScore& score : scores) {
                print_line(
                    "{:<16} {:<10} {:>6} {:>12} {:>7.1f}% {:>10.3f} {:>8.3f} "
                    "{:>8.3f}",
                    what, score.predictor, score.horizon, score.predictions,
                    100 * score.relative_error, score.precision, score.recall, score.f1);
            }
        }
    }

    static void print_json(const ScoreTable& table) {
        for (const auto& [what, scores] : table) {
            for (const PredictorScore& score : scores) {
                const nlohmann::ordered_json line{{"run", what},
                                                  {"predictor", score.predictor},
                                                  {"horizon", score.horizon},
                                                  {"predictions", score.predictions},
                                                  {"relative_error", score.relative_error},
                                                  {"hits", score.hits},
                                                  {"false_alarms", score.false_alarms},
                                                  {"misses", score.misses},
                                                  {"precision", score.precision},
                                                  {"recall", score.recall},
                                                  {"f1", score.f1}};
                print_line("{}", line.dump());
            }
        }
    }

    std::vector<std::string> runs_;
    std::string model_;
    std::string predictors_ = "last,ewma,episodes,lstm,auto";
    bool json_ = false;
};

}  // namespace

void add_predictor_commands(const CommandGroup& all) {
    const CommandGroup predictor =
        all.group("predictor", "Predictors of workers' times: training, scores");
    predictor.add<PredictorTrainCommand>("train", "Train the LSTM predictor from recorded runs");
    predictor.add<PredictorScoreCommand>(
        "score", "Replay recorded runs through predictors: how good they are");
}

}  // namespace cohort
