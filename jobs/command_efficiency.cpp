#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"
#include "cohort/report/efficiency_training.hpp"
#include "cohort/sim/efficiency_file.hpp"
#include "commands.hpp"
#include "output_option.hpp"

namespace cohort {
namespace {

void declare_sweeps(CLI::App& app, std::vector<std::string>& sweeps) {
    app.add_option("sweeps,--sweeps", sweeps,
                   "Folders of sweeps with --measure-gradients (docs/efficiency.md); required")
        ->type_name("DIR...");
}

void require_sweeps(const std::vector<std::string>& sweeps) {
    if (sweeps.empty()) {
        fail<UsageError>({.where = "--sweeps", .what = "no sweep is given", .expected = "folders"});
    }
}

void print_head(std::size_t plans) {
    std::puts(fmt::format("{} plans; correlation of ranks and error of log e_s", plans).c_str());
    std::puts(fmt::format("{:<34} {:>11} {:>8}", "", "correlation", "error").c_str());
}

void print_score(const std::string& name, const EfficiencyScore& score) {
    std::puts(
        fmt::format("{:<34} {:>11.3f} {:>8.3f}", name, score.correlation, score.error).c_str());
}

template <class Predict>
EfficiencyScore score_of(const std::vector<EfficiencyRow>& rows, const Predict& predict) {
    std::vector<double> predicted;
    for (const EfficiencyRow& row : rows) {
        predicted.push_back(predict(row));
    }
    return score_efficiency(rows, predicted);
}

/// What needs no training.
void print_others(const std::vector<EfficiencyRow>& rows) {
    const StalenessPrior prior;
    print_score("prior",
                score_of(rows, [&](const auto& row) { return prior.efficiency(row.features); }));
    print_score("gradient agreement", score_of(rows, [](const EfficiencyRow& row) {
                    return 1 - row.features.mean_lag * (1 - row.agreement);
                }));
}

class EfficiencyTrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_sweeps(app, sweeps_);
        out_.declare(app, "--out", "The coefficients to write; required");
    }

    ExitCode run(const CommandContext& context) override {
        if (!out_.given()) {
            fail<UsageError>({.where = "cohort efficiency train",
                              .what = "a file for the coefficients is needed",
                              .expected = "--out FILE"});
        }
        require_sweeps(sweeps_);
        const OutputFile file = out_.check(context, files_of_runs(sweeps_));
        const std::vector<EfficiencyRow> rows = efficiency_rows(sweeps_);
        const std::vector<std::string> terms = choose_terms(rows);
        const EfficiencyCoefficients found = fit_efficiency(rows, terms);
        print_head(rows.size());
        print_others(rows);
        const auto held_out = [&](HoldOut what) {
            return score_efficiency(rows, predict_held_out(rows, terms, what));
        };
        print_score("model", held_out(HoldOut::kNothing));
        print_score("model, of models left out", held_out(HoldOut::kModel));
        print_score("model, of rates and momenta left out", held_out(HoldOut::kSetting));
        const auto unseen = [&](HoldOut what) {
            return score_efficiency(rows, predict_chosen_without(rows, what));
        };
        print_score("terms chosen without the models too", unseen(HoldOut::kModel));
        print_score("without the rates and momenta too", unseen(HoldOut::kSetting));
        replace_text_file(file, to_toml(found));
        std::puts(fmt::format("{}: {}", out_.path(), fmt::join(terms, ", ")).c_str());
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
        require_sweeps(sweeps_);
        const std::vector<EfficiencyRow> rows = efficiency_rows(sweeps_);
        const EfficiencyModel model(*load_efficiency(model_));
        for (const EfficiencyRow& row : rows_ ? rows : std::vector<EfficiencyRow>()) {
            const StalenessFeatures& f = row.features;
            std::puts(
                fmt::format("{:<9} lr {:<6} momentum {:<4} {:<10} {:<9} {:<13} lag {:.2f} to "
                            "{:.2f}, curvature {:.3f}, noise {:.2f}: e_s {:.2f}, model {:.2f}",
                            row.model, row.lr, f.momentum, f.look_ahead ? "look-ahead" : "keep",
                            row.plan, row.pattern, f.mean_lag, f.max_lag, f.step_curvature,
                            f.noise_ratio, row.efficiency, model.efficiency(f))
                    .c_str());
        }
        print_head(rows.size());
        print_others(rows);
        print_score("model", score_of(rows, [&](const EfficiencyRow& row) {
                        return model.efficiency(row.features);
                    }));
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> sweeps_;
    std::string model_;
    bool rows_ = false;
};

}  // namespace

std::unique_ptr<Command> make_efficiency_train_command() {
    return std::make_unique<EfficiencyTrainCommand>();
}

std::unique_ptr<Command> make_efficiency_score_command() {
    return std::make_unique<EfficiencyScoreCommand>();
}

}  // namespace cohort
