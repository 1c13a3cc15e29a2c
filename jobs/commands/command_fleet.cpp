#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/require.hpp"
#include "cohort/core/thread_team.hpp"
#include "cohort/sim/fleet.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"
#include "core/units.hpp"
#include "fleet/real_fleet.hpp"
#include "fleet/train_jobs.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/stop_signal.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

/// Seconds of the real clock between progress lines; on a terminal they are drawn over.
constexpr double kFleetPeriodSeconds = 10;
constexpr double kFleetTerminalSeconds = 0.2;

/// Tells how a fleet goes.
class FleetLines {
public:
    explicit FleetLines(bool terminal) : terminal_(terminal) {}

    void operator()(const FleetProgress& now) {
        if (now.ended != nullptr && now.ended->state == FleetJobState::kFailed) {
            log_warn("job '{}' failed after {} samples: {}", now.ended->name, now.ended->samples,
                     now.ended->error);
        }
        if ((clock_.now() - told_).count() <
            (terminal_ ? kFleetTerminalSeconds : kFleetPeriodSeconds)) {
            return;
        }
        told_ = clock_.now();
        const std::string line =
            fmt::format("{}/{} jobs over{}  {} running  {} waiting  {:.0f} s virtual  {} events",
                        now.over, now.jobs,
                        now.failed > 0 ? fmt::format(" ({} failed)", now.failed) : "", now.running,
                        now.arrived - now.over - now.running, now.virtual_s,
                        format_count(now.events)) +
            (now.alone > 0 ? fmt::format("  {} run alone", now.alone) : "");
        if (terminal_) {
            draw_live_line(line);
        } else {
            log_info("{}", line);
        }
    }

private:
    SteadyClock clock_;
    bool terminal_;
    LiveLineGuard guard_;
    Clock::Seconds told_ = clock_.now();
};

std::string job_row(const FleetJobResult& job) {
    const auto seconds = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.1f}", *value) : std::string("-");
    };
    return fmt::format(
               "{:<16} {:<10} {:>7} {:>10.1f} {:>10} {:>10} {:>11} {:>9} {:<8}", job.name,
               job.workload, job.workers, job.arrival_s, seconds(job.start_s), seconds(job.end_s),
               job.tta_s() ? (job.missed() ? ">" : "") + fmt::format("{:.1f}", *job.tta_s()) : "-",
               job.slowdown() ? fmt::format("{:.2f}", *job.slowdown()) : "-", word_of(job.state)) +
           (job.grants ? fmt::format(" {:>6} {:>9.1f} {:>9.1f}", *job.grants, *job.room_taken_s,
                                     *job.room_given_s)
                       : "");
}

void print_jobs(const std::vector<FleetJobResult>& jobs) {
    constexpr std::size_t kMostRows = 40;
    print_line("{:<16} {:<10} {:>7} {:>10} {:>10} {:>10} {:>11} {:>9} {:<8}{}", "job", "workload",
               "workers", "arrival s", "start s", "end s", "TTA s", "slowdown", "state",
               jobs.front().grants ? " grants   taken s   given s" : "");
    for (std::size_t i = 0; i < std::min(jobs.size(), kMostRows); ++i) {
        print_line("{}", job_row(jobs[i]));
    }
    if (jobs.size() > kMostRows) {
        print_line("... and {} more: {}", jobs.size() - kMostRows, kFleetFile);
    }
}

void print_distribution(const char* name, const Distribution& values) {
    if (values.count > 0) {
        print_line("{:<28} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}", name, values.mean,
                   values.median, values.p95, values.p99);
    }
}

void print_summary(const FleetResult& result) {
    const FleetSummary all = summarise(result);
    print_line("");
    print_line("{:<28} {:>10} {:>10} {:>10} {:>10}", "", "mean", "median", "p95", "p99");
    print_distribution("TTA from arrival, s", all.tta);
    print_distribution("TTA from start, s", all.tta_from_start);
    print_distribution("completion time, s", all.completion);
    print_distribution("slowdown against alone", all.slowdown);
    if (all.missed > 0) {
        print_line("{} missed the target (>): the completion time is then the TTA, a lower bound",
                   counted(all.missed, "job"));
    }
    if (result.real) {
        print_line(
            "ranks {:.1f} % held by jobs; {:.1f} % of the workers' time lost to exchange "
            "and waiting",
            100 * all.devices, 100 * all.waiting);
    } else {
        print_line(
            "devices {:.1f} % held, processors {:.1f} %, network cards {:.1f} % busy; {:.1f} % "
            "of the workers' time lost to waiting for others",
            100 * all.devices, 100 * all.cores, 100 * all.network, 100 * all.waiting);
    }
    if (result.grants) {
        print_line("grants: {} given, {} returned; {} refused; {} plans refused",
                   result.grants->granted, result.grants->returned, result.grants->refused,
                   result.grants->refused_plans.size());
    }
}

class FleetCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("fleet", file_,
                       "Cluster and jobs, listed or drawn (TOML, docs/fleet.md); required. Started "
                       "by mpirun on several ranks they are real jobs on those")
            ->type_name("FILE");
        app.add_option(
               "--out", out_,
               "Folder for fleet.json, on real ranks for the jobs' results too; empty: none "
               "is written")
            ->type_name("DIR");
        app.add_flag("--overwrite", overwrite_, "Replace the result that --out holds");
        app.add_flag(
            "--resume", resume_,
            "Go on with the jobs in --out that have not ended; virtual ones begin anew, to the "
            "same result");
        app.add_option(
               "--set", set_,
               "A key of [cluster], [fleet], [defaults], [arrivals] or [real] in place of the "
               "file's (repeatable): defaults.mode=asgd, arrivals.rate=60")
            ->type_name("TABLE.KEY=VALUE");
        value(app, "--label", label_, "Name of this result in comparisons; empty: the file's")
            ->type_name("TEXT");
        alone_option_ =
            value(app, "--alone", alone_,
                  "Virtual jobs: run each one alone, too, time only, to tell how much slower it is "
                  "among the others")
                ->check(one_of({"on", "off"}));
        value(app, "--threads", threads_,
              "Threads that compute the gradients of all jobs; 0: all cores; changes no result",
              Limits<int>{.least = 0, .most = kMaxThreads});
    }

    ExitCode run(const CommandContext& context) override {
        need(!file_.empty(), "cohort fleet", "a file of jobs is needed", "cohort fleet FILE");
        check_one_world(context.env);
        FleetPlan plan = read_fleet(file_, set_);
        plan.label = label_.empty() ? plan.label : label_;
        check_real_options(plan);
        return context.env.world_size > 1 ? run_real(context, plan)
                                          : run_virtual(context, std::move(plan));
    }

private:
    ExitCode run_virtual(const CommandContext& context, FleetPlan plan) const {
        need(!resume_ || !overwrite_, "--resume, --overwrite", "they exclude each other",
             "one of them");
        need(!resume_ || !out_.empty(), "--out", "nothing to resume", "the fleet's folder");
        if (const std::optional<FleetResult> done = resume_ ? found_whole(plan) : std::nullopt) {
            print_jobs(done->jobs);
            print_summary(*done);
            return fleet_exit_code(*done);
        }
        plan.threads = threads_ > 0 ? threads_ : context.env.cores;
        plan.alone = alone_ == "on";
        if (!out_.empty()) {
            check_fleet_folder(out_, overwrite_ || resume_);
        }
        const StopSignal stop("ending all jobs; what is known of them is written");
        log_header(context, header(plan));
        const FleetResult result = run_timed(plan, stop, context.env.stderr_is_terminal);
        print_jobs(result.jobs);
        print_summary(result);
        if (!out_.empty()) {
            write_fleet(out_, result);
        }
        return finish(result);
    }

    /// The result of this fleet when it was not stopped. A virtual fleet leaves no checkpoints: one
    /// that was stopped begins anew and ends as if it had not been.
    [[nodiscard]] std::optional<FleetResult> found_whole(const FleetPlan& plan) const {
        const std::filesystem::path file = std::filesystem::path(out_) / kFleetFile;
        if (!std::filesystem::exists(file)) {
            log_info("no {}: starting at the beginning", file.string());
            return std::nullopt;
        }
        FleetResult found = read_fleet_result(file.string());
        check_same_fleet(found, plan, false, file.string());
        if (found.stopped) {
            log_info("{} was stopped: starting at the beginning, to the same result",
                     file.string());
            return std::nullopt;
        }
        log_info("{} is whole: nothing to resume", file.string());
        return found;
    }

    /// On every rank.
    ExitCode run_real(const CommandContext& context, const FleetPlan& plan) const {
        need(!out_.empty(), "--out", "real jobs have results", "a folder");
        need(!resume_ || !overwrite_, "--resume, --overwrite", "they exclude each other",
             "one of them");
        need(threads_ == 0, "--threads", "ranks share their host's cores", "none on real ranks");
        need(alone_option_->count() == 0, "--alone", "real jobs are not run alone, too",
             "none on real ranks");
        const std::vector<TrainOptions> jobs = train_jobs(plan, out_, overwrite_);
        const StopSignal stop("all jobs end after a checkpoint");
        const double card = plan.make_room == RoomRule::kOff ? 0 : card_of(plan);
        RankPool pool;
        if (card > 0) {
            pool.share_card(card);
        }
        const RealFleet fleet{.plan = plan,
                              .jobs = jobs,
                              .out = out_,
                              .overwrite = overwrite_,
                              .resume = resume_,
                              .tuning_file = tuning_file(context.env),
                              .cores = context.env.cores,
                              .card_bytes_s = card,
                              .stop_requested = [&stop] { return stop.requested(); }};
        try {
            return pool.rank() == 0 ? control(context, pool, fleet) : serve_fleet(pool, fleet);
        } catch (const PeerError& error) {
            pool.abort(error.exit_code(), error.what());
        } catch (const Error&) {  // before the start, on all ranks
            pool.finalize();
            throw;
        } catch (const std::exception& error) {
            pool.abort(static_cast<ExitCode>(EXIT_FAILURE), error.what());
        }
    }

    [[nodiscard]] ExitCode control(const CommandContext& context, RankPool& pool,
                                   const RealFleet& fleet) const {
        log_header(context,
                   {fmt::format("{} on {} of {}, lent by rank 0, which trains nothing",
                                counted(fleet.jobs.size(), "job"), counted(pool.size() - 1, "rank"),
                                counted(pool.map().nodes(), "host")),
                    "without effect on real ranks: " + without_effect(fleet.plan)});
        const FleetResult result = control_fleet(pool, fleet);
        print_jobs(result.jobs);
        print_summary(result);
        return finish(result);
    }

    [[nodiscard]] static std::vector<std::string> header(const FleetPlan& plan) {
        return {"VIRTUAL TIME: seconds below are those of a cluster that is computed, not run",
                fmt::format("{} on {} of {} with {} each, servers: {}, room: {}",
                            counted(plan.jobs.size(), "job"), counted(plan.nodes, "node"),
                            plan.profile, counted(plan.devices_per_node, "device"),
                            word_of(plan.server_placement), word_of(plan.make_room))};
    }

    [[nodiscard]] static FleetResult run_timed(const FleetPlan& plan, const StopSignal& stop,
                                               bool terminal) {
        const SteadyClock clock;
        const Clock::Seconds begun = clock.now();
        FleetLines lines(terminal);
        FleetResult result = run_fleet(plan, [&](const FleetProgress& progress) {
            lines(progress);
            return stop.requested();
        });
        result.wall_s = (clock.now() - begun).count();
        result.peak_bytes = process_peak_bytes();
        return result;
    }

    [[nodiscard]] ExitCode finish(const FleetResult& result) const {
        const FleetSummary all = summarise(result);
        if (result.real) {
            log_info("{}: {} done, {} failed, {:.1f} s", result.stopped ? "stopped" : "done",
                     counted(all.ended, "job"), all.failed, result.makespan_s);
            log_info("result: {}/{}", out_, kFleetFile);
            return fleet_exit_code(result);
        }
        log_info(
            "{}: {} done, {} failed, makespan {:.1f} s; {} events in {:.1f} s, {} at "
            "most, digest {:016x}",
            result.stopped ? "stopped" : "done", counted(all.ended, "job"), all.failed,
            result.makespan_s, format_count(result.events), result.wall_s,
            format_bytes(result.peak_bytes), result.digest);
        if (!out_.empty()) {
            log_info("result: {}/{}", out_, kFleetFile);
        }
        return fleet_exit_code(result);
    }

    std::string file_;
    std::string out_;
    bool overwrite_ = false;
    bool resume_ = false;
    std::vector<std::string> set_;
    std::string label_;
    std::string alone_ = "on";
    const CLI::Option* alone_option_ = nullptr;
    int threads_ = 0;
};

}  // namespace

void add_fleet_command(const CommandGroup& all) {
    all.add<FleetCommand>("fleet", "Run many jobs on one cluster that they share, virtual or real");
}

}  // namespace cohort
