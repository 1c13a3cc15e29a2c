#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset/text_file.hpp"
#include "formats/weights_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "report/fit/efficiency_training.hpp"

namespace cohort {
namespace {

void declare_sweeps(CLI::App& app, std::vector<std::string>& sweeps) {
    app.add_option("sweeps,--sweeps", sweeps,
                   "Folders of sweeps with --measure-gradients (docs/efficiency.md); required")
        ->type_name("DIR...");
}

void print_head(std::size_t plans) {
    print_line(
        "{} plans; correlation of ranks, error of log e_s, and what choosing by "
        "pace x e_s loses beside the best choice",
        plans);
    print_line("{:<36} {:>11} {:>7} {:>10} {:>6}", "", "correlation", "error", "mean loss",
               "worst");
}

void print_score(const std::string& name, const EfficiencyScore& score) {
    print_line("{:<36} {:>11.3f} {:>7.3f} {:>10.3f} {:>6.3f}", name, score.correlation, score.error,
               score.mean_regret, score.worst_regret);
}

void print_score(const std::vector<EfficiencyRow>& rows, const std::string& name,
                 const EfficiencyModel& model) {
    std::vector<double> predicted;
    for (const EfficiencyRow& row : rows) {
        predicted.push_back(model.efficiency(row.features));
    }
    print_score(name, score_efficiency(rows, predicted));
}

/// What needs no training.
void print_others(const std::vector<EfficiencyRow>& rows) {
    const EfficiencyScore none = score_efficiency(rows, std::vector<double>(rows.size(), 0.0));
    print_line("{:<36} {:>11} {:>7} {:>10.3f} {:>6.3f}", "always ssgd", "", "", none.mean_regret,
               none.worst_regret);
    print_score(rows, "prior", EfficiencyModel());
}

/// Each model by coefficients that have not seen it.
void print_unseen(const std::vector<EfficiencyRow>& rows) {
    const std::vector<double> predicted = predict_held_out(rows, HoldOut::kModel);
    std::map<std::string, std::pair<std::vector<EfficiencyRow>, std::vector<double>>> models;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto& [of_model, guesses] = models[rows[i].model];
        of_model.push_back(rows[i]);
        guesses.push_back(predicted[i]);
    }
    print_score("model, of models left out", score_efficiency(rows, predicted));
    for (const auto& [model, part] : models) {
        print_score(fmt::format("  {}", model), score_efficiency(part.first, part.second));
    }
}

class EfficiencyTrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_sweeps(app, sweeps_);
        out_.declare(app, "--out", "The coefficients to write; required");
    }

    ExitCode run(const CommandContext& context) override {
        need(out_.given(), "cohort efficiency train", "a file for the coefficients is needed",
             "--out FILE");
        need(!sweeps_.empty(), "--sweeps", "no sweep is given", "folders");
        const OutputFile file = out_.check(context, files_of_runs(sweeps_));
        const std::vector<EfficiencyRow> rows = efficiency_rows(sweeps_);
        const EfficiencyCoefficients found = fit_efficiency(rows);
        print_head(rows.size());
        print_others(rows);
        const auto held_out = [&](HoldOut what) {
            return score_efficiency(rows, predict_held_out(rows, what));
        };
        print_score("model", held_out(HoldOut::kNothing));
        print_unseen(rows);
        print_score("model, of rates and momenta left out", held_out(HoldOut::kSetting));
        replace_text_file(file, to_toml(found));
        for (std::size_t i = 0; i < found.terms.size(); ++i) {
            print_line("{:>8.4f}  {}", found.weights[i], found.terms[i]);
        }
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> sweeps_;
    OutputOption out_;
};

class EfficiencyScoreCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_sweeps(app, sweeps_);
        app.add_option("--model", model_, "Coefficients; empty: the shipped ones")
            ->type_name("FILE");
        app.add_flag("--rows", rows_, "A line for each plan as well");
    }

    ExitCode run(const CommandContext& /*context*/) override {
        need(!sweeps_.empty(), "--sweeps", "no sweep is given", "folders");
        const std::vector<EfficiencyRow> rows = efficiency_rows(sweeps_);
        const EfficiencyModel model(*load_efficiency(model_));
        for (const EfficiencyRow& row : rows_ ? rows : std::vector<EfficiencyRow>()) {
            const StalenessFeatures& f = row.features;
            print_line(
                "{:<9} lr {:<6} momentum {:<4} {:<10} {:>9}@{:<4} {:<9} lag {:.2f} "
                "to {:.2f}, curvature {:.3f}, noise {:.2f}: pace {:.2f}, e_s {:.2f}, "
                "model {:.2f}",
                row.model, row.lr, f.momentum, f.look_ahead ? "look-ahead" : "keep", row.plan,
                f.lr_scale, row.pattern, f.mean_lag, f.max_lag, f.step_curvature, f.noise_ratio,
                row.pace, row.efficiency, model.efficiency(f));
        }
        print_head(rows.size());
        print_others(rows);
        print_score(rows, "model", model);
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> sweeps_;
    std::string model_;
    bool rows_ = false;
};

}  // namespace

void add_efficiency_commands(const CommandGroup& all) {
    const CommandGroup efficiency =
        all.group("efficiency", "What stale gradients cost: training from sweeps, scores");
    efficiency.add<EfficiencyTrainCommand>(
        "train", "Fit the efficiency model to sweeps, and say how well it does");
    efficiency.add<EfficiencyScoreCommand>("score", "Apply an efficiency model to sweeps");
}

}  // namespace cohort
