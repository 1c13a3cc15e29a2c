#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cohort/core/clock.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/stop_signal.hpp"
#include "jobs/commands/commands.hpp"
#include "jobs/commands/sweep_options.hpp"
#include "report/sweep/sweep.hpp"

namespace cohort {
namespace {

/// Seconds between progress lines that stay; on a terminal they are drawn over.
constexpr double kSweepPeriodSeconds = 30;

std::string plural(std::size_t count, const std::string& one) {
    return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// The code that failed runs leave: the first one's if it is one of ours.
ExitCode code_of(const std::vector<FailedRun>& failed) {
    constexpr std::array<ExitCode, 5> kKnown{ExitCode::kUsage, ExitCode::kInput, ExitCode::kPeer,
                                             ExitCode::kDevice, ExitCode::kNumerical};
    const auto code = static_cast<ExitCode>(failed.front().code);
    return std::find(kKnown.begin(), kKnown.end(), code) != kKnown.end() ? code : ExitCode::kInput;
}

class SweepCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("experiment", experiment_,
                       "The experiment: modes, patterns, seeds (TOML, docs/sweeps.md); required")
            ->type_name("FILE");
        app.add_option(
               "--out", out_,
               "Folder for the results; runs that it has already are not repeated; required")
            ->type_name("DIR");
        value(app, "--jobs", jobs_, "Runs at a time, each on one core; 0: all cores",
              Limits<int>{.least = 0, .most = 1024});
        app.add_option("--set", set_,
                       "An option of cohort simulate in place of the one in [job] (repeatable)")
            ->type_name("NAME=VALUE");
        app.add_flag("--dry-run", dry_run_, "Check everything, list the runs and stop");
    }

    ExitCode run(const CommandContext& context) override {
        need(!experiment_.empty() && !out_.empty(), "cohort sweep",
             "an experiment and a folder are needed", "cohort sweep FILE --out DIR");
        const Experiment experiment =
            read_experiment(experiment_, overrides_of(set_), check_simulate_option);
        SweepHooks hooks;
        hooks.options = options_of_run;
        check_experiment(experiment, hooks);
        if (dry_run_) {
            list(experiment, hooks);
            return ExitCode::kDone;
        }
        const StopSignal stop("ending the runs; the same command goes on with the rest");
        hooks.stop_requested = [&stop] { return stop.requested(); };
        return carry_out(experiment, hooks, context);
    }

private:
    [[nodiscard]] ExitCode carry_out(const Experiment& experiment, SweepHooks& hooks,
                                     const CommandContext& context) const {
        const bool terminal = context.env.stderr_is_terminal;
        const SteadyClock clock;
        const Clock::Seconds begun = clock.now();
        Clock::Seconds told = begun;
        hooks.progress = [&](const SweepProgress& progress) {
            if (terminal) {
                draw_live_line(line(progress));
            } else if ((clock.now() - told).count() >= kSweepPeriodSeconds) {
                told = clock.now();
                log_info("{}", line(progress));
            }
        };
        hooks.failed = [](const FailedRun& run) {
            log_error("{} ended with code {}:\n{}\n(all of it: {})", run.key, run.code,
                      run.last_lines, run.log);
        };
        const SweepOutcome outcome = [&] {
            const LiveLineGuard guard;
            return run_sweep(experiment,
                             {.out = out_, .jobs = jobs_ > 0 ? jobs_ : context.env.cores}, hooks);
        }();
        tell(outcome, format_duration(clock.now() - begun));
        return outcome.stopped          ? ExitCode::kRequeue
               : outcome.failed.empty() ? ExitCode::kDone
                                        : code_of(outcome.failed);
    }

    [[nodiscard]] static std::string line(const SweepProgress& progress) {
        const std::string eta =
            progress.eta_s >= 0 ? format_duration(Clock::Seconds(progress.eta_s)) : "-";
        return fmt::format("{}/{} runs{}  eta {}  {} running{}", progress.done, progress.total,
                           progress.tuning ? " (choosing learning rates)" : "", eta,
                           progress.running,
                           progress.failed > 0 ? fmt::format("  {} failed", progress.failed) : "");
    }

    void tell(const SweepOutcome& outcome, const std::string& time) const {
        const SweepResults& results = outcome.results;
        log_info("{} of {} runs of the table are there, {} were before; {} in {}",
                 results.rows.size(), results.planned, outcome.found,
                 outcome.stopped ? "stopped" : "done", time);
        if (!outcome.failed.empty()) {
            log_error("{} failed; the same command tries again",
                      plural(outcome.failed.size(), "run"));
        }
        for (const std::string& mode : modes_at_edge(results)) {
            log_warn(
                "{}: the learning rate is at the end of its list; a longer one may have a better",
                mode);
        }
        log_info("results: {0}/results.csv, {0}/results.h5; a page of them: cohort report {0}",
                 out_);
    }

    /// Every run with whether it is there.
    void list(const Experiment& experiment, const SweepHooks& hooks) const {
        std::vector<TuningRow> results;
        const auto show = [&](const PlannedRun& run) {
            std::optional<RunRow> row = find_run(out_, experiment, run, hooks);
            print_line("{}  {}", row ? "done   " : "missing", command_text(options_of_run(run)));
            return row;
        };
        for (const PlannedRun& run : plan_tuning(experiment)) {
            if (const std::optional<RunRow> row = show(run)) {
                results.push_back(tuning_row(run, *row));
            }
        }
        const std::vector<PlannedRun> table =
            plan_table(experiment, choose_rates(experiment, results));
        for (const PlannedRun& run : table) {
            show(run);
        }
        const std::size_t all =
            experiment.modes.size() * experiment.patterns.size() * experiment.seeds.size();
        log_info("dry run: {} to choose learning rates, {} of the table{}; nothing was started",
                 plural(plan_tuning(experiment).size(), "run"), all,
                 table.size() < all
                     ? fmt::format(" ({} of them wait for a learning rate)", all - table.size())
                     : "");
    }

    std::string experiment_;
    std::string out_;
    int jobs_ = 0;
    std::vector<std::string> set_;
    bool dry_run_ = false;
};

}  // namespace

void add_sweep_command(const CommandGroup& all) {
    all.add<SweepCommand>("sweep",
                          "Simulate many runs: modes, patterns and seeds of an experiment");
}

}  // namespace cohort
