#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/core/require.hpp"
#include "cohort/data/dataset.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/system/process_usage.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/stop_signal.hpp"
#include "jobs/commands/commands.hpp"
#include "jobs/commands/simulate_records.hpp"
#include "sim/result/observed.hpp"
#include "sim/scenario/option_list.hpp"

namespace cohort {
namespace {

/// Seconds of the real clock between progress lines; on a terminal they are drawn over.
constexpr double kProgressPeriodSeconds = 5;
constexpr double kTerminalPeriodSeconds = 0.2;

/// Tells how a run goes.
class ProgressLines {
public:
    ProgressLines(bool terminal, Task task) : terminal_(terminal), task_(task) {}

    void operator()(const SimulationProgress& progress) {
        if (progress.evaluation) {
            const EvaluationPoint& test = *progress.evaluation;
            log_info("test after {} samples, {:.3f} s: {} ({} samples)", test.samples_applied,
                     test.virtual_s, format_scores(task_, test.accuracy.value_or(0), test.loss),
                     test.test_samples);
        }
        if (progress.change) {
            tell(*progress.change);
        }
        if (since(drawn_) >= (terminal_ ? kTerminalPeriodSeconds : kProgressPeriodSeconds)) {
            draw(progress);
        }
    }

private:
    [[nodiscard]] double since(Clock::Seconds time) const { return (clock_.now() - time).count(); }

    /// A mode may arrange its workers anew many times a second: not all of that is news.
    void tell(const SwitchReport& change) {
        if (!change.same_mode() || !regrouping_said_ ||
            since(*regrouping_said_) >= kProgressPeriodSeconds) {
            log_info("{}", describe(change));
            regrouping_said_ = clock_.now();
        }
    }

    void draw(const SimulationProgress& progress) {
        const double seconds = since(drawn_);
        const auto done = static_cast<double>(progress.samples_applied - samples_);
        const auto left = static_cast<double>(progress.budget_samples - progress.samples_applied);
        const std::string eta =
            done > 0 ? format_duration(Clock::Seconds(left * seconds / done)) : "-";
        const std::string line = fmt::format(
            "{}/{}  {:.2f} s virtual  eta {}  {:.0f} events/s  {:.0f} samples/s computed",
            format_count(static_cast<std::uint64_t>(progress.samples_applied)),
            format_count(static_cast<std::uint64_t>(progress.budget_samples)), progress.virtual_s,
            eta, static_cast<double>(progress.events - events_) / seconds, done / seconds);
        if (terminal_) {
            draw_live_line(line);
        } else {
            log_info("{}", line);
        }
        drawn_ = clock_.now();
        samples_ = progress.samples_applied;
        events_ = progress.events;
    }

    SteadyClock clock_;
    bool terminal_;
    Task task_;
    LiveLineGuard guard_;
    Clock::Seconds drawn_ = clock_.now();
    std::optional<Clock::Seconds> regrouping_said_;
    std::int64_t samples_ = 0;
    std::uint64_t events_ = 0;
};

class SimulateCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        each_option(options_, DeclareOptions{app});
        app.add_option("--timeline", timeline_,
                       "Write what every worker did when (JSON): for Perfetto and chrome://tracing "
                       "(docs/observe.md)")
            ->type_name("FILE");
        app.add_flag("--tensorboard", tensorboard_,
                     "Write an event file for TensorBoard into the folder tensorboard of --out");
        app.add_flag("--json", json_, "Print the summary as one JSON object on one line");
    }

    ExitCode run(const CommandContext& context) override {
        check_one_process(context.env, "cohort simulate");
        check_momentum(context, options_, SimulateOptions().momentum);
        const SimulateOptions job = checked(options_);
        if (!options_.out.empty()) {
            check_result_folder(options_.out, options_.overwrite);
        }
        require(!tensorboard_ || !options_.out.empty(), "--tensorboard",
                "a folder for its files: --out DIR", "none");
        const std::optional<OutputFile> timeline = check_timeline(context);
        const StopSignal stop;
        print_header(context, job);
        if (options_.threads == 0) {
            options_.threads = context.env.cores;
        }
        const Task task = task_of(job);
        std::string drawn;
        const SimulationResult result =
            simulate_timed(stop, context.env.stderr_is_terminal, task, timeline ? &drawn : nullptr);
        if (!options_.out.empty()) {
            write_result(options_.out, result);
        }
        if (tensorboard_) {
            write_event_file(options_.out, result, task);
        }
        if (timeline) {
            replace_text_file(*timeline, drawn);
        }
        for (const std::string& line : simulation_facts(result, job, task)) {
            log_info("{}", line);
        }
        if (json_) {
            print_line("{}", simulation_json(result, job, task));
        }
        return result.stop_reason == "signal" ? ExitCode::kRequeue : ExitCode::kDone;
    }

private:
    /// Errors: UsageError, FileError: it cannot be written.
    [[nodiscard]] std::optional<OutputFile> check_timeline(const CommandContext& context) const {
        if (timeline_.empty()) {
            return std::nullopt;
        }
        OutputFile file =
            check_output({.option = "--timeline",
                          .path = timeline_,
                          .overwrite = options_.overwrite,
                          .inputs = {options_.data, options_.model, options_.init, options_.trace,
                                     options_.profile, context.config}});
        check_folder_of(file);
        return file;
    }

    static Task task_of(const SimulateOptions& job) {
        Hdf5Thread hdf5;
        return job.data.empty() ? Task::kClassification
                                : open_dataset(job.data, "test", hdf5)->info().task();
    }

    [[nodiscard]] SimulationResult simulate_timed(const StopSignal& stop, bool terminal, Task task,
                                                  std::string* timeline) const {
        const SteadyClock clock;
        const Clock::Seconds begun = clock.now();
        ProgressLines lines(terminal, task);
        const auto follow = [&](const SimulationProgress& progress) {
            lines(progress);
            return stop.requested();
        };
        SimulationResult result = timeline != nullptr ? simulate(options_, follow, *timeline)
                                                      : simulate(options_, follow);
        result.wall_s = (clock.now() - begun).count();
        result.peak_bytes = process_peak_bytes();
        return result;
    }

    static void print_header(const CommandContext& context, const SimulateOptions& job) {
        std::vector<std::string> facts{
            "VIRTUAL TIME: seconds below are those of a cluster that is computed, not run",
            fmt::format("{}, {} on {} of {}, mode {}, {} samples per worker and step",
                        counted(job.workers, "worker"), counted(job.servers, "server"),
                        counted(job.nodes, "node"), job.profile, job.mode_text(), job.batch),
            fmt::format("times and bytes of {}; {}", job.time_as,
                        job.trace.empty() ? "pattern " + job.pattern : "trace " + job.trace)};
        if (job.no_train) {
            facts.emplace_back("NO TRAINING: time only; nothing is learned");
        }
        log_header(context, facts);
        if (job.no_train && judges_gradients(job)) {
            log_warn("mode {} accepts every push: there are no gradients to compare",
                     job.mode_text());
        }
    }

    SimulateOptions options_;
    std::string timeline_;
    bool tensorboard_ = false;
    bool json_ = false;
};

}  // namespace

void add_simulate_command(const CommandGroup& all) {
    all.add<SimulateCommand>("simulate",
                             "Train on a virtual cluster, to see what each mode would do there");
}

}  // namespace cohort
