#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/fleet.hpp"
#include "cohort/sim/simulation.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "report/page/page.hpp"
#include "report/run/run_page.hpp"

namespace cohort {
namespace {

class ReportCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("results", results_,
                       "Folders of cohort train, or a sweep's folder, or result files of cohort "
                       "simulate or their folders, or folders of cohort fleet; required")
            ->type_name("PATH");
        out_.declare(app, "--out",
                     "The HTML page to write; default: report.html beside the first result. A page "
                     "that this command has written is replaced");
        app.add_flag("--markdown", markdown_,
                     "Print the tables as Markdown instead of writing a page");
    }

    ExitCode run(const CommandContext& context) override {
        need(!results_.empty(), "cohort report", "nothing to report on",
             "folders of cohort train, a sweep's folder, or results of cohort simulate or cohort "
             "fleet");
        if (all_are(is_fleet, "fleet", kFleetFile)) {
            return report_fleets(context);
        }
        if (all_are(is_run, "run of cohort train", kMetricsFile)) {
            return report_runs(context);
        }
        const SweepResults results = read();
        if (results.rows.empty()) {
            fail<FileError>({.where = results_.front(),
                             .what = fmt::format("none of {} runs is there", results.planned),
                             .hint = "cohort sweep again, to go on with it"});
        }
        if (markdown_) {
            std::fputs(report_markdown(results).c_str(), stdout);
            return ExitCode::kDone;
        }
        const OutputFile page = page_file(context, files_of_runs(results_));
        replace_text_file(page, report_html(results));
        log_info("{} of {} runs are on {}", results.rows.size(), results.planned, out_.path());
        return ExitCode::kDone;
    }

private:
    static bool exists(const std::string& path) {
        std::error_code ignored;
        return std::filesystem::exists(path, ignored);
    }

    static std::string beside(const std::string& path) {
        std::error_code ignored;
        return std::filesystem::is_directory(path, ignored)
                   ? path + "/report.html"
                   : (std::filesystem::path(path).parent_path() / "report.html").string();
    }

    static bool is_fleet(const std::string& path) {
        return exists(path + "/" + kFleetFile) ||
               std::filesystem::path(path).filename() == kFleetFile;
    }

    static bool is_run(const std::string& path) {
        return exists(path + "/" + kMetricsFile) ||
               std::filesystem::path(path).extension() ==
                   std::filesystem::path(kMetricsFile).extension();
    }

    /// Whether the results are of a kind. Errors: UsageError when some are and others are not.
    bool all_are(bool (*kind)(const std::string&), std::string_view name,
                 std::string_view file) const {
        const auto count = std::ranges::count_if(results_, kind);
        const auto other = std::ranges::find_if_not(results_, kind);
        if (count > 0 && other != results_.end()) {
            fail<UsageError>({.where = *other,
                              .what = fmt::format("is no {}, but others are", name),
                              .expected = fmt::format("only folders with {}, or none", file),
                              .hint = "a page for each kind"});
        }
        return count > 0;
    }

    /// The page, checked; its place is beside the first result unless it was named.
    OutputFile page_file(const CommandContext& context, const std::vector<std::string>& inputs) {
        if (!out_.given()) {
            out_.set(beside(results_.front()));
        }
        return out_.check(context, inputs, kPageStart);
    }

    /// A table beside the page, checked. @param start  of tables that may be replaced
    OutputFile table_file(const CommandContext& context, const std::string& name,
                          const std::vector<std::string>& inputs, const char* start) const {
        OutputOption table = out_;
        table.set((std::filesystem::path(out_.path()).parent_path() / name).string());
        return table.check(context, inputs, start);
    }

    ExitCode report_runs(const CommandContext& context) {
        const std::vector<RunHistory> runs = read_runs(results_);
        if (markdown_) {
            std::fputs(report_markdown(runs).c_str(), stdout);
            return ExitCode::kDone;
        }
        std::vector<std::string> files;
        std::ranges::transform(runs, std::back_inserter(files), &RunHistory::file);
        const OutputFile page = page_file(context, files);
        const std::string csv = std::filesystem::path(out_.path()).stem().string() + ".csv";
        need(csv != std::filesystem::path(out_.path()).filename(), "--out",
             "the page's numbers take this name", "a name such as compare.html");
        const OutputFile table = table_file(context, csv, files, kRunColumnsStart);
        replace_text_file(page, report_html(runs, csv));
        replace_text_file(table, run_columns_csv(runs));
        log_info("{} on {}, the numbers of its pictures in {}",
                 runs.size() == 1 ? "the run is" : fmt::format("{} runs are", runs.size()),
                 out_.path(), csv);
        return ExitCode::kDone;
    }

    /// A fleet without a label gets its folder's name.
    [[nodiscard]] FleetResults read_fleets() const {
        FleetResults fleets;
        for (const std::string& path : results_) {
            const std::filesystem::path file = std::filesystem::weakly_canonical(
                exists(path + "/" + kFleetFile) ? path + "/" + kFleetFile : path);
            fleets.files.push_back(file.string());
            FleetResult result = read_fleet_result(fleets.files.back());
            if (result.label.empty()) {
                result.label = file.parent_path().filename().string();
            }
            fleets.results.push_back(std::move(result));
        }
        return fleets;
    }

    ExitCode report_fleets(const CommandContext& context) {
        const FleetResults fleets = read_fleets();
        if (markdown_) {
            std::fputs(report_markdown(fleets).c_str(), stdout);
            return ExitCode::kDone;
        }
        const OutputFile page = page_file(context, fleets.files);
        const OutputFile table = table_file(context, kFleetJobsFile, fleets.files, kFleetJobsStart);
        replace_text_file(page, report_html(fleets));
        replace_text_file(table, fleet_jobs_csv(fleets));
        log_info("{} on {}, jobs in {}", counted(fleets.results.size(), "fleet"), out_.path(),
                 kFleetJobsFile);
        return ExitCode::kDone;
    }

    [[nodiscard]] SweepResults read() const {
        std::vector<std::string> files;
        for (const std::string& path : results_) {
            if (exists(path + "/" + kSweepFile)) {
                need(results_.size() == 1, path, "a sweep is reported alone",
                     "one sweep's folder, or single results");
                return read_sweep_results(path);
            }
            if (exists(path + "/runs")) {
                fail<FileError>({.where = path,
                                 .what = "the sweep has no table yet",
                                 .hint = "the same cohort sweep again, to go on with it"});
            }
            const std::string inside = path + "/" + kResultFile;
            std::error_code ignored;
            if (std::filesystem::is_directory(path, ignored) && !exists(inside)) {
                fail<FileError>({.where = path,
                                 .what = "no results here",
                                 .expected = fmt::format(
                                     "{} of cohort train, a sweep's {}, a virtual run's {} or a "
                                     "fleet's {}",
                                     kMetricsFile, kSweepFile, kResultFile, kFleetFile)});
            }
            files.push_back(exists(inside) ? inside : path);
        }
        return results_of_files(files);
    }

    std::vector<std::string> results_;
    OutputOption out_;
    bool markdown_ = false;
};

}  // namespace

void add_report_command(const CommandGroup& all) {
    all.add<ReportCommand>(
        "report",
        "Tables and pictures of runs, of a sweep, of simulations or of fleets, as one HTML page");
}

}  // namespace cohort
