#include "report/sweep/sweep.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/system/run_lock.hpp"
#include "data/file/text_file.hpp"
#include "report/sweep/child_pool.hpp"

namespace cohort {
namespace {

constexpr std::size_t kLastLines = 6;
constexpr const char* kRuns = "runs";
constexpr const char* kTable = "results.csv";
constexpr const char* kTuning = "tuning.csv";
/// Interval at which the table's files are updated, so that a long sweep can be followed.
constexpr Clock::Seconds kBetweenWrites{60};

/// Options that do not change a result.
bool matters(const std::string& name) {
    constexpr std::array<std::string_view, 3> kOthers{"out", "overwrite", "threads"};
    return std::ranges::find(kOthers, name) == kOthers.end();
}

/// An option missing in a result of an older program counts as its default.
bool same_options(const SimulateOptions& wanted, const SimulationResult& result) {
    const OptionList defaults = option_values({});
    for (const auto& [name, value] : option_values(resolved(wanted))) {
        const OptionList& had = has_option(result.options, name) ? result.options : defaults;
        if (matters(name) && option_of(had, name) != value) {
            return false;
        }
    }
    return true;
}

std::string run_folder(const PlannedRun& run) {
    return std::string(kRuns) + "/" + run.key;
}

/// The error message in the log, if there is one, else the end of the log.
std::string last_lines(const std::string& log) {
    std::ifstream file(log);
    std::deque<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
        if (lines.size() > kLastLines) {
            lines.pop_front();
        }
    }
    const auto error = std::ranges::find_if(
        lines, [](const std::string& line) { return line.find(" error ") != std::string::npos; });
    if (error != lines.end()) {
        lines.erase(lines.begin(), error);
    }
    std::string text;
    for (const std::string& line : lines) {
        text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

/// First columns of a table, which tables of older programs have too.
std::string first_columns(const std::string& csv) {
    std::size_t end = 0;
    for (int column = 0; column < 3; ++column) {
        end = csv.find(',', end + 1);
    }
    return csv.substr(0, end);
}

/// Refuses to replace files of these names that no sweep has written. Errors: UsageError,
/// FileError.
void check_folder(const std::string& out) {
    check_output_folder(out, {"run.lock", kTable, kTuning, kSweepFile}, {kRuns});
    for (const auto& [name, start] : {std::pair(kTable, first_columns(results_csv({}))),
                                      std::pair(kTuning, first_columns(tuning_csv({}))),
                                      std::pair(kSweepFile, std::string("cohort-store "))}) {
        const std::string path = out + "/" + name;
        try {
            (void)check_output({.option = "--out", .path = path, .own_start = start});
        } catch (const UsageError&) {
            fail<UsageError>({.where = "--out " + out,
                              .what = "holds a file that is no sweep's",
                              .got = path,
                              .hint = "another folder, or removing it"});
        }
    }
}

/// One call of run_sweep.
class Sweep {
public:
    Sweep(const Experiment& experiment, const SweepSettings& settings, const SweepHooks& hooks)
        : experiment_(experiment), settings_(settings), hooks_(hooks), pool_(settings.program) {
        progress_.total = plan_tuning(experiment).size() + table_size();
    }

    [[nodiscard]] SweepOutcome run() {
        const std::vector<PlannedRun> tuning = plan_tuning(experiment_);
        const std::vector<std::optional<RunRow>> known = find_all(tuning);
        describe(choose(tuning, known));
        write_results(find_all(plan_table(experiment_, rates_to_show())));
        progress_.tuning = true;
        describe(choose(tuning, carry_out(tuning, known)));
        progress_.tuning = false;
        const std::vector<PlannedRun> table = plan_table(experiment_, rates_to_show());
        write_results(carry_out(table, find_all(table)));
        return std::move(outcome_);
    }

private:
    [[nodiscard]] std::size_t table_size() const {
        return experiment_.modes.size() * experiment_.patterns.size() * experiment_.seeds.size();
    }

    /// Finds the finished runs.
    [[nodiscard]] std::vector<std::optional<RunRow>> find_all(
        const std::vector<PlannedRun>& runs) const {
        std::vector<std::optional<RunRow>> rows;
        for (const PlannedRun& run : runs) {
            rows.push_back(find_run(settings_.out, experiment_, run, hooks_));
        }
        return rows;
    }

    /// Rates of the table's rows: the chosen rates, and for modes whose search is not finished the
    /// previous rate of the table, so that finished rows stay.
    [[nodiscard]] std::vector<std::optional<double>> rates_to_show() const {
        std::vector<std::optional<double>> rates = rates_;
        const std::map<std::string, double> before = rates_of_table(settings_.out);
        for (std::size_t mode = 0; mode < rates.size(); ++mode) {
            const ExperimentMode& wanted = experiment_.modes[mode];
            const auto found = before.find(wanted.name);
            if (!rates[mode] && found != before.end() &&
                std::ranges::find(wanted.lr, found->second) != wanted.lr.end()) {
                rates[mode] = found->second;
            }
        }
        return rates;
    }

    /// Whether a run may start: the table's runs wait until the rate of their mode is chosen.
    [[nodiscard]] bool may_start(const PlannedRun& run) const {
        return progress_.tuning || rates_[run.mode] || experiment_.modes[run.mode].lr.empty();
    }

    /// Carries out the missing ones of these runs. @return results in order; none for a run that
    /// failed or was not reached @param rows  rows of finished runs
    [[nodiscard]] std::vector<std::optional<RunRow>> carry_out(
        const std::vector<PlannedRun>& runs, std::vector<std::optional<RunRow>> rows) {
        std::deque<std::size_t> waiting;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (rows[i]) {
                ++progress_.done;
                ++outcome_.found;
            } else if (may_start(runs[i])) {
                waiting.push_back(i);
            }
        }
        began_ = clock_.now();
        ended_ = 0;
        Clock::Seconds written = began_;
        while (!stop() && !(waiting.empty() && pool_.running() == 0)) {
            while (!waiting.empty() && pool_.running() < static_cast<std::size_t>(settings_.jobs)) {
                start(waiting.front(), runs[waiting.front()]);
                waiting.pop_front();
            }
            report();
            constexpr Clock::Seconds kBetweenReports{0.2};
            if (const auto ended = pool_.wait(kBetweenReports)) {
                rows[ended->tag] = finish(runs[ended->tag], ended->code);
                report();
            }
            if (!progress_.tuning && clock_.now() - written > kBetweenWrites) {
                write_results(rows);
                written = clock_.now();
            }
        }
        pool_.stop();
        report();
        return rows;
    }

    void start(std::size_t index, const PlannedRun& run) {
        const std::string folder = settings_.out + "/" + run_folder(run);
        make_own_folder(settings_.out + "/" + kRuns, FolderRule::kOwnReal);
        make_own_folder(folder, FolderRule::kOwnReal);
        std::vector<std::string> arguments = arguments_of(run);
        arguments.insert(arguments.begin(), "simulate");
        arguments.insert(arguments.end(), {"--threads=1", "--overwrite", "--out=" + folder});
        pool_.start(index, arguments, folder + "/log.txt");
    }

    /// Handles the end of a child.
    [[nodiscard]] std::optional<RunRow> finish(const PlannedRun& run, int code) {
        ++progress_.done;
        ++ended_;
        std::optional<RunRow> row =
            code == 0 ? find_run(settings_.out, experiment_, run, hooks_) : std::nullopt;
        if (!row) {
            ++progress_.failed;
            const std::string log = settings_.out + "/" + run_folder(run) + "/log.txt";
            outcome_.failed.push_back(
                {.key = run.key,
                 .code = code,
                 .last_lines = code == 0 ? "its result is not what was asked for" : last_lines(log),
                 .log = log});
            hooks_.failed(outcome_.failed.back());
        }
        return row;
    }

    [[nodiscard]] bool stop() {
        outcome_.stopped = outcome_.stopped || hooks_.stop_requested();
        return outcome_.stopped;
    }

    void report() {
        progress_.running = pool_.running();
        progress_.eta_s = ended_ > 0
                              ? (clock_.now() - began_).count() / static_cast<double>(ended_) *
                                    static_cast<double>(progress_.total - progress_.done)
                              : -1;
        hooks_.progress(progress_);
    }

    /// Chooses the rates and stores the results of the search.
    [[nodiscard]] std::vector<std::optional<double>> choose(
        const std::vector<PlannedRun>& runs, const std::vector<std::optional<RunRow>>& rows) {
        std::vector<TuningRow>& tuning = outcome_.results.tuning;
        tuning.clear();
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (rows[i]) {
                tuning.push_back(tuning_row(runs[i], *rows[i]));
            }
        }
        std::vector<std::optional<double>> rates = choose_rates(experiment_, tuning);
        for (TuningRow& row : tuning) {
            const auto mode = std::ranges::find(experiment_.modes, row.mode, &ExperimentMode::name);
            row.chosen =
                rates[static_cast<std::size_t>(mode - experiment_.modes.begin())] == row.lr;
        }
        return rates;
    }

    /// Stores modes, patterns, seeds and rates of the results.
    void describe(std::vector<std::optional<double>> rates) {
        rates_ = std::move(rates);
        SweepResults& results = outcome_.results;
        results.title = experiment_.title;
        results.modes = experiment_.modes;
        results.waiting.clear();
        for (std::size_t mode = 0; mode < rates_.size(); ++mode) {
            if (!rates_[mode] && !results.modes[mode].lr.empty()) {
                results.waiting.push_back(results.modes[mode].name);
            }
            results.modes[mode].lr =
                rates_[mode] ? std::vector<double>{*rates_[mode]} : std::vector<double>{};
        }
        results.patterns.clear();
        for (const ExperimentPattern& pattern : experiment_.patterns) {
            results.patterns.push_back(pattern.name);
        }
        results.seeds = experiment_.seeds;
        results.planned = static_cast<std::int64_t>(table_size());
    }

    /// Writes the finished part of the table.
    void write_results(const std::vector<std::optional<RunRow>>& rows) {
        SweepResults& results = outcome_.results;
        results.rows.clear();
        for (const std::optional<RunRow>& row : rows) {
            if (row) {
                results.rows.push_back(*row);
            }
        }
        const std::string& out = settings_.out;
        const auto file = [&](const std::string& name) {
            return OutputFile(out + "/" + name, true, FolderRule::kOwn);
        };
        replace_text_file(file(kTable), results_csv(results));
        replace_text_file(file(kTuning), tuning_csv(results));
        write_sweep_results(file(kSweepFile), results);
    }

    const Experiment& experiment_;
    const SweepSettings& settings_;
    const SweepHooks& hooks_;
    ChildPool pool_;
    SteadyClock clock_;
    SweepOutcome outcome_;
    SweepProgress progress_;
    std::vector<std::optional<double>> rates_;  ///< chosen, by mode
    Clock::Seconds began_{0};                   ///< begin of this call
    std::size_t ended_ = 0;                     ///< children that have ended in it
};

}  // namespace

SweepOutcome run_sweep(const Experiment& experiment, const SweepSettings& settings,
                       const SweepHooks& hooks) {
    check_folder(settings.out);
    const RunLock lock(settings.out);
    return Sweep(experiment, settings, hooks).run();
}

std::optional<RunRow> find_run(const std::string& folder, const Experiment& experiment,
                               const PlannedRun& run, const SweepHooks& hooks) {
    const std::string file = folder + "/" + run_folder(run) + "/" + kResultFile;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) {
        return std::nullopt;
    }
    try {
        const SimulationResult result = read_result(file);
        if (result.stop_reason == "signal" || !same_options(hooks.options(run), result)) {
            return std::nullopt;
        }
        RunRow row = make_row(result, run_folder(run) + "/" + kResultFile);
        row.mode = experiment.modes[run.mode].name;
        row.pattern = run.pattern;
        return row;
    } catch (const FileError&) {  // torn or damaged: the run is repeated
        return std::nullopt;
    }
}

}  // namespace cohort
