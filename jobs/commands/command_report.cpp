#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/simulation.hpp"
#include "core/log.hpp"
#include "data/dataset/text_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "report/page/page.hpp"

namespace cohort {
namespace {

class ReportCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("results", results_,
                       "A sweep's folder, or result files of cohort simulate or their folders; "
                       "required")
            ->type_name("PATH");
        out_.declare(app, "--out",
                     "The HTML page to write; default: report.html beside the first result. A page "
                     "that this command has written is replaced");
        app.add_flag("--markdown", markdown_,
                     "Print the tables as Markdown instead of writing a page");
    }

    ExitCode run(const CommandContext& context) override {
        need(!results_.empty(), "cohort report", "nothing to report on",
             "a sweep's folder, or results of cohort simulate");
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
        if (!out_.given()) {
            out_.set(beside(results_.front()));
        }
        const OutputFile page = out_.check(context, files_of_runs(results_), kPageStart);
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
                                 .expected = fmt::format("a sweep's {} or a run's {}", kSweepFile,
                                                         kResultFile)});
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
    all.add<ReportCommand>("report",
                           "Tables and pictures of a sweep or of simulations, as one HTML page");
}

}  // namespace cohort
