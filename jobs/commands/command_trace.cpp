#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// A pattern and what it is laid over.
struct PatternOptions {
    std::string pattern;
    std::uint64_t seed = 1;
    int workers = 8;
    int nodes = 0;
    int servers = 1;
    double iteration_s = 1;
    double length_s = 600;

    void declare(CLI::App& app) {
        std::string names;
        for (const PatternInfo& info : patterns()) {
            names += (names.empty() ? "" : ", ") + info.name;
        }
        app.add_option("--pattern", pattern, "What happens, see docs/patterns.md: " + names)
            ->type_name("NAME[:STRENGTH]");
        value(app, "--seed", seed, "Seed of the pattern", kSeedLimits);
        value(app, "--workers", workers, "Workers of the cluster", kWorkersLimits);
        value(app, "--nodes", nodes, "Nodes that the workers are spread over; 0: one per worker",
              kNodesLimits);
        value(app, "--servers", servers,
              "Servers, which share nodes with workers; 0: none, as with rings", kServersLimits);
        value(app, "--iteration-s", iteration_s,
              "Seconds of a healthy worker's iteration; lengths of patterns count in it",
              kSomeSecondsLimits);
        value(app, "--length-s", length_s, "Seconds to make or show", kSomeVirtualSecondsLimits);
    }

    /// Errors: UsageError for a pattern that is no rows of a trace.
    void check_rows() const {
        const std::string name = pattern.substr(0, pattern.find(':'));
        for (const PatternInfo& info : patterns()) {
            if (info.by_iteration && info.name == name) {
                fail<UsageError>({.where = "--pattern",
                                  .what = "delays of single iterations are no rows of a trace",
                                  .got = "'" + pattern + "'",
                                  .hint = "cohort simulate --pattern"});
            }
        }
    }

    [[nodiscard]] ClusterShape shape() const {
        return spread_over_nodes(workers, nodes == 0 ? workers : nodes, servers, false,
                                 iteration_s);
    }
};

constexpr std::size_t kMostJobs = 100'000;

/// Jobs that a scenario lets arrive within a time.
std::vector<JobArrival> jobs_until(Scenario& scenario, double time_s) {
    std::vector<JobArrival> jobs;
    for (auto job = scenario.next_job(); job && job->time_s < time_s; job = scenario.next_job()) {
        if (jobs.size() == kMostJobs) {
            fail<UsageError>(
                {.where = "--length-s",
                 .what = fmt::format("more than {} jobs arrive", kMostJobs),
                 .expected = fmt::format("at most {:g} s of this pattern", job->time_s),
                 .got = fmt::format("{:g}", time_s)});
        }
        jobs.push_back(*job);
    }
    return jobs;
}

class TraceMakeCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        options_.declare(app);
        out_.declare(app, "--out", "The trace to write (CSV, see docs/patterns.md); required");
    }

    ExitCode run(const CommandContext& context) override {
        need(!options_.pattern.empty() && out_.given(), "cohort trace make",
             "a pattern and a file are needed", "--pattern NAME[:STRENGTH] --out FILE");
        options_.check_rows();
        const OutputFile file = out_.check(context, {});
        const auto scenario = make_pattern(options_.pattern, options_.shape(), options_.seed);
        const std::vector<TraceRow> rows = rows_until(*scenario, options_.length_s);
        const std::size_t jobs = jobs_until(*scenario, options_.length_s).size();
        if (rows.empty() && jobs > 0) {
            fail<UsageError>({.where = "--pattern",
                              .what = "its jobs are no rows of a trace",
                              .got = "'" + options_.pattern + "'",
                              .hint = "cohort simulate --pattern"});
        }
        if (jobs > 0) {
            log_warn(
                "{} other jobs of this pattern are not in the file: only `cohort simulate "
                "--pattern` has them",
                jobs);
        }
        write_trace(file, rows);
        print_line("{}: {}, {:g} s of {}", out_.path(), counted(rows.size(), "row"),
                   options_.length_s, options_.pattern);
        return ExitCode::kDone;
    }

private:
    PatternOptions options_;
    OutputOption out_;
};

class TraceShowCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("trace,--trace", trace_, "The trace to show (CSV), in place of a pattern")
            ->type_name("FILE");
        options_.declare(app);
        value(app, "--columns", columns_, "Characters in a line", {.least = 20, .most = 10'000});
        svg_.declare(app, "--svg", "Write the picture to this file as well");
    }

    ExitCode run(const CommandContext& context) override {
        need(options_.pattern.empty() != trace_.empty(), "cohort trace show",
             "one of a pattern and a trace is needed", "--pattern NAME[:STRENGTH] or --trace FILE");
        check_file();
        if (svg_.given()) {
            picture_ = svg_.check(context, {trace_});
        }
        return trace_.empty() ? show_pattern() : show_file(context);
    }

private:
    /// "persistent:2" is what one writes after --pattern.
    void check_file() const {
        std::error_code ignored;
        if (!trace_.empty() && !std::filesystem::exists(trace_, ignored)) {
            fail<FileError>({.where = trace_,
                             .what = "there is no such trace",
                             .hint = "a pattern is given as --pattern " + trace_});
        }
    }

    [[nodiscard]] ExitCode show_pattern() const {
        options_.check_rows();
        const ClusterShape shape = options_.shape();
        const auto scenario = make_pattern(options_.pattern, shape, options_.seed);
        const ExitCode code =
            show(rows_until(*scenario, options_.length_s), shape, options_.length_s);
        show_jobs(jobs_until(*scenario, options_.length_s));
        return code;
    }

    /// Sizes that were not asked for are those of the trace.
    [[nodiscard]] ExitCode show_file(const CommandContext& context) {
        const std::vector<TraceRow> rows = read_trace(trace_);
        int workers = 0;
        int nodes = 0;
        for (const TraceRow& row : rows) {
            int& count = row.target.kind == TraceTarget::Kind::kNode ? nodes : workers;
            count = std::max(count, row.target.index + 1);
        }
        if (context.origin("workers") == "default") {
            options_.workers = std::max({1, workers, nodes});
        }
        if (std::max(workers, nodes) > kMostPlaces) {
            fail<UsageError>({.where = trace_,
                              .what = "too many workers or nodes for a picture",
                              .expected = fmt::format("at most {}", kMostPlaces),
                              .got = std::to_string(std::max(workers, nodes))});
        }
        const double last_s = rows.empty() ? 0 : rows.back().time_s;
        if (context.origin("length-s") == "default" && last_s > 0) {
            options_.length_s = last_s * 1.05;
        }
        const ClusterShape shape = options_.shape();
        check_targets(rows, shape.workers, shape.nodes, trace_);
        return show(rows, shape, options_.length_s);
    }

    [[nodiscard]] ExitCode show(const std::vector<TraceRow>& rows, const ClusterShape& shape,
                                double end_s) const {
        std::fputs(draw_trace_text(rows, shape, end_s, columns_).c_str(), stdout);
        if (picture_) {
            replace_text_file(*picture_, draw_trace_svg(rows, shape, end_s));
        }
        return ExitCode::kDone;
    }

    static void show_jobs(const std::vector<JobArrival>& jobs) {
        constexpr std::size_t kMost = 20;
        for (std::size_t i = 0; i < std::min(jobs.size(), kMost); ++i) {
            print_line("job at {:.1f} s: {} from node {} on, {} iterations", jobs[i].time_s,
                       counted(jobs[i].workers, "worker"), jobs[i].first_node,
                       format_count(static_cast<std::uint64_t>(jobs[i].iterations)));
        }
        if (jobs.size() > kMost) {
            print_line("and {}", counted(jobs.size() - kMost, "more job"));
        }
    }

    PatternOptions options_;
    std::string trace_;
    OutputOption svg_;
    std::optional<OutputFile> picture_;
    int columns_ = 100;
};

}  // namespace

void add_trace_commands(const CommandGroup& all) {
    const CommandGroup trace = all.group("trace", "What slows workers down, and when");
    trace.add<TraceMakeCommand>("make", "Write a pattern as a trace");
    trace.add<TraceShowCommand>("show", "A picture of a pattern or a trace: workers, time, speed");
}

}  // namespace cohort
