#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/core/units.hpp"
#include "cohort/train/trainer.hpp"
#include "commands.hpp"
#include "facts.hpp"
#include "stop_signal.hpp"
#include "train_options.hpp"

namespace cohort {
namespace {

class TrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        declare_train_options(app, options_);
        app.add_flag("--dry-run", dry_run_, "Check everything, print the header and stop");
    }

    ExitCode run(const CommandContext& context) override {
        check_one_world(context.env);
        check_momentum(context);
        const StopSignal stop;
        TrainEnvironment environment;
        environment.stop_requested = [&stop] { return stop.requested(); };
        environment.live_line = context.env.stderr_is_terminal;
        environment.cores = context.env.cores;
        environment.world_size = context.env.world_size;
        Trainer trainer(options_, environment);
        print_header(context, trainer);
        if (dry_run_) {
            log_info("dry run: nothing was trained or written");
            return ExitCode::kDone;
        }
        return finish(trainer.run());
    }

private:
    /// What the optimizer would not read must not seem to count.
    void check_momentum(const CommandContext& context) const {
        const auto given = [](const EffectiveOption& option) {
            return option.name == "momentum" && option.origin == "command line";
        };
        const bool asked = options_.momentum != TrainOptions{}.momentum ||
                           std::any_of(context.options.begin(), context.options.end(), given);
        if (asked && options_.optimizer != "sgd") {
            fail<UsageError>({.where = "--momentum",
                              .what = options_.optimizer + " has no momentum to set",
                              .expected = "--optimizer sgd",
                              .got = fmt::format("{}", options_.momentum)});
        }
    }

    static void print_header(const CommandContext& context, const Trainer& trainer) {
        std::vector<std::string> lines = build_facts();
        const auto add = [&lines](const std::vector<std::string>& more) {
            lines.insert(lines.end(), more.begin(), more.end());
        };
        add(machine_facts(context.env));
        add({"device " + trainer.device().description(), model_facts(trainer.graph()),
             dataset_facts("train", trainer.train_info()),
             dataset_facts("test", trainer.test_info()),
             fmt::format("budget {} samples", trainer.budget_samples()), "options:"});
        add(option_facts(context.options));
        for (const std::string& line : lines) {
            log_info("{}", line);
        }
    }

    [[nodiscard]] ExitCode finish(const TrainSummary& summary) const {
        const TrainProgress& progress = summary.progress;
        const SampleAccounts& accounts = summary.accounts;
        log_info("done ({}): {} samples in {} updates, {:.0f} samples/s, {} of training, {} in all",
                 to_string(summary.reason), progress.samples_applied, progress.updates,
                 summary.samples_per_s, format_duration(Clock::Seconds(progress.train_seconds)),
                 format_duration(Clock::Seconds(progress.wall_seconds)));
        log_info(
            "samples: {} leased = {} applied + {} returned ({} not finite, {} at the end) + {} "
            "outstanding",
            accounts.leased, accounts.applied, accounts.returned(), accounts.returned_non_finite,
            accounts.returned_stop, accounts.outstanding);
        if (summary.test) {
            log_info("test accuracy {:.2f} %, loss {:.4f}", 100 * summary.test->accuracy,
                     summary.test->loss);
        }
        if (progress.tta_seconds) {
            log_info("target accuracy {} reached after {:.1f} s of training",
                     options_.target_accuracy, *progress.tta_seconds);
        }
        if (!summary.outputs_saved) {
            log_error("some results in {} could not be saved, see above", options_.out);
            return ExitCode::kInput;
        }
        return summary.reason == StopReason::kSignal ? ExitCode::kRequeue : ExitCode::kDone;
    }

    TrainOptions options_;
    bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
    return std::make_unique<TrainCommand>();
}

}  // namespace cohort
