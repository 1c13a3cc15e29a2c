
#include <map>
#include <string>
#include <vector>

#include "data/file/text_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "report/fit/chooser_training.hpp"
#include "sched/recorded/weights_file.hpp"

namespace cohort {
namespace {

void declare_chooser_runs(CLI::App& app, std::vector<std::string>& runs) {
    app.add_option("runs,--runs", runs,
                   "Folders of runs of star-ml, or with --record-rates, real or virtual, and of "
                   "sweeps (docs/choosers.md); required")
        ->type_name("DIR...");
}

void print_score(const std::string& name, const RateScore& score) {
    print_line("{:<20} {:>5} {:>13.2f} {:>8.2f} {:>8.2f} {:>10.2f} {:>10.2f} {:>10.2f}", name,
               score.runs, 100 * score.timing_model, 100 * score.fixed, 100 * score.anew,
               100 * score.continued, 100 * score.anew_first, 100 * score.continued_first);
}

void print_scores(const std::map<std::string, RateScore>& scores, const std::string& weights) {
    print_line(
        "error of the predicted rate, %, mean over runs: of the timing model, "
        "of {},\nof a regressor that learns anew in each run, or begins with the "
        "weights; then of these two in the first {} windows",
        weights, RateScore::kFirst);
    print_line("{:<20} {:>5} {:>13} {:>8} {:>8} {:>10} {:>10} {:>10}", "pattern", "runs",
               "timing model", "weights", "anew", "with them", "anew, 8", "with, 8");
    RateScore all;
    for (const auto& [pattern, score] : scores) {
        print_score(pattern, score);
        all.merge(score);
    }
    print_score("all", all);
}

class ChooserTrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_chooser_runs(app, runs_);
        out_.declare(app, "--out", "The weights to write; required");
    }

    ExitCode run(const CommandContext& context) override {
        need(out_.given(), "cohort chooser train", "a file for the weights is needed",
             "--out FILE");
        need(!runs_.empty(), "--runs", "no run is given", "folders");
        const OutputFile file = out_.check(context, files_of_runs(runs_));
        const std::vector<RateRun> runs = rate_runs(runs_);
        const NamedWeights found = fit_rates(runs);
        print_scores(score_held_out(runs), "weights fitted without the pattern's runs");
        replace_text_file(file, to_toml(found));
        print_line("{}: {}", out_.path(), found.trained_on);
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> runs_;
    OutputOption out_;
};

class ChooserScoreCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_chooser_runs(app, runs_);
        app.add_option("--model", model_, "Weights; empty: the shipped ones")->type_name("FILE");
    }

    ExitCode run(const CommandContext& /*context*/) override {
        need(!runs_.empty(), "--runs", "no run is given", "folders");
        const std::vector<RateRun> runs = rate_runs(runs_);
        const auto named = load_rate_weights(model_);
        const RateRegressor::Weights weights =
            named ? RateRegressor::weights_of(*named) : RateRegressor::start_weights();
        std::map<std::string, RateScore> scores;
        for (const RateRun& run : runs) {
            scores[run.pattern].merge(score_rates(run, weights));
        }
        print_scores(scores, "the weights");
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> runs_;
    std::string model_;
};

}  // namespace

void add_chooser_commands(const CommandGroup& all) {
    const CommandGroup chooser =
        all.group("chooser", "The regressor of star-ml: training from runs, scores");
    chooser.add<ChooserTrainCommand>(
        "train", "Fit the regressor's weights to what runs measured, and say how well");
    chooser.add<ChooserScoreCommand>("score", "Apply weights to what runs measured");
}

}  // namespace cohort
