#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include "cohort/comm/world.hpp"
#include "cohort/core/output.hpp"
#include "cohort/train/trainer.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/units.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/cli/resume_command.hpp"
#include "jobs/cli/stop_signal.hpp"
#include "jobs/commands/commands.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/job_context.hpp"
#include "train/run/option_list.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"
#include "train/world_sequence.hpp"

namespace cohort {
namespace {

/// Of a run that had ended when rank 0 was lost.
ExitCode left_exit_code(const std::string& out) {
    int code = static_cast<int>(ExitCode::kPeer);
    std::ifstream(RunFolder(out).exit_code) >> code;
    return static_cast<ExitCode>(code);
}

class TrainCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        each_option(options_, DeclareOptions{app});
        app.add_flag("--dry-run", dry_run_, "Check everything, print the header and stop");
    }

    ExitCode run(const CommandContext& context) override {
        check_one_world(context.env);
        check_momentum(context, options_, TrainOptions().momentum);
        options_ = checked(std::move(options_), context.env.world_size);
        check_records(context);
        const StopSignal stop;
        WorldSequence worlds(options_);
        TrainEnvironment environment;
        environment.stop_requested = [&stop] { return stop.requested(); };
        environment.live_line = context.env.stderr_is_terminal;
        environment.cores = context.env.cores;
        environment.tuning_file = tuning_file(context.env);
        while (true) {
            worlds.describe(environment);
            try {
                return train_in_world(context, environment);
            } catch (const WorldLost&) {
                if (!worlds.go_on(options_)) {
                    worlds.current().finalize();
                    return left_exit_code(options_.out);
                }
            }
        }
    }

private:
    ExitCode train_in_world(const CommandContext& context, const TrainEnvironment& environment) {
        World& world = *environment.world;
        try {
            const ExitCode code = train(context, environment);
            world.finalize();
            return code;
        } catch (const WorldLost&) {
            throw;
        } catch (const Error& error) {  // on all ranks, in order
            world.finalize();
            if (world.rank() == 0 && error.exit_code() != ExitCode::kUsage) {
                say_how_to_continue(context);
            }
            throw;
        } catch (...) {
            if (world.size() > 1) {
                world.abort(std::current_exception());
            }
            throw;
        }
    }

    /// What is recorded replaces no input, and not the config file.
    void check_records(const CommandContext& context) const {
        const std::vector<std::string> inputs{options_.data,         options_.model,
                                              options_.init,         options_.predictor_file,
                                              options_.chooser_file, context.config};
        refuse_input("--record-trace", options_.record_trace, inputs);
        refuse_input("--record-load", options_.record_load, inputs);
        refuse_input("--timeline", options_.timeline, inputs);
        refuse_input("--metrics-file", options_.metrics_file, inputs);
    }

    /// The same on every rank; rank 0 talks.
    [[nodiscard]] ExitCode train(const CommandContext& context,
                                 const TrainEnvironment& environment) const {
        Trainer trainer(options_, environment);
        const bool first = environment.world->rank() == 0;
        if (first) {
            print_header(context, trainer, environment.world->map());
        }
        if (dry_run_) {
            if (first) {
                log_info("dry run: nothing was trained or written");
            }
            return ExitCode::kDone;
        }
        const TrainSummary summary = trainer.run();
        return first ? finish(context, environment, summary) : ExitCode::kDone;
    }

    /// Where the newest checkpoint lies, and how the run goes on from there.
    void say_how_to_continue(const CommandContext& context) const {
        const std::vector<std::string> found =
            list_checkpoints(RunFolder(options_.out).checkpoints);
        if (found.empty()) {
            return;
        }
        log_info("the newest checkpoint: {}", found.front());
        if (!context.env.by_script) {  // jobs/launch.sh knows its own command
            log_info("to continue: {}", resume_command(context.env.world_size));
        }
    }

    void print_header(const CommandContext& context, const Trainer& trainer,
                      const RankMap& map) const {
        std::vector<std::string> facts = map.size() > 1 ? map.facts() : std::vector<std::string>();
        facts.push_back(fmt::format(
            "{}, {}, mode {}, {} samples per worker and step", counted(map.workers(), "worker"),
            counted(map.servers, "server"), options_.mode_text(), options_.batch));
        if (std::string advice = binding_advice(context.env, map); !advice.empty()) {
            facts.push_back(std::move(advice));
        }
        if (!computes_network(options_)) {
            facts.push_back("NO TRAINING: --compute " + options_.compute +
                            " only takes time; nothing is learned");
        }
        if (!options_.inject.empty()) {
            facts.push_back("faults on purpose: " + options_.inject);
        }
        facts.insert(facts.end(),
                     {"device " + trainer.device(), precision_facts(options_, map),
                      model_facts(trainer.graph()), dataset_facts("train", trainer.train_info()),
                      dataset_facts("test", trainer.test_info()),
                      fmt::format("budget {} samples", trainer.budget_samples())});
        log_header(context, facts);
    }

    [[nodiscard]] ExitCode finish(const CommandContext& context,
                                  const TrainEnvironment& environment,
                                  const TrainSummary& summary) const {
        const TrainProgress& progress = summary.progress;
        const SampleAccounts& accounts = summary.accounts;
        log_info("done ({}): {} samples in {} updates, {:.0f} samples/s, {} of training, {} in all",
                 to_string(summary.reason), progress.samples_applied, progress.updates,
                 summary.samples_per_s, format_duration(Clock::Seconds(progress.train_seconds)),
                 format_duration(Clock::Seconds(progress.wall_seconds)));
        log_info(
            "samples: {} leased = {} applied + {} returned ({} not finite, {} in aborted "
            "rounds, {} at the end, {} dropped, {} interrupted, {} lost) + {} outstanding",
            accounts.leased, accounts.applied, accounts.returned(), accounts.returned_non_finite,
            accounts.returned_void_round, accounts.returned_stop, accounts.returned_dropped,
            accounts.returned_interrupted, accounts.returned_lost, accounts.outstanding);
        finish_cluster(summary);
        for (const std::string& loss : environment.losses) {
            log_warn("earlier in this run {}, and the ranks that were left went on", loss);
        }
        if (summary.bytes_sent > 0) {
            log_info("exchange: {} sent between ranks, {:.1f} s of processor time to move it",
                     format_bytes(summary.bytes_sent), summary.comm_cpu_seconds);
        }
        if (summary.test) {
            log_info("test {}",
                     format_scores(summary.task, summary.test->accuracy, summary.test->loss));
        }
        if (progress.tta_seconds) {
            log_info("target {} reached after {:.1f} s of training",
                     format_target(options_.target_accuracy, options_.target_loss),
                     *progress.tta_seconds);
        }
        if (!computes_network(options_)) {
            log_warn("--compute {}: nothing was learned, there is no model", options_.compute);
        }
        if (!summary.outputs_saved) {
            log_error("some results in {} could not be saved, see above", options_.out);
        }
        if (exit_code(summary) != ExitCode::kDone) {
            say_how_to_continue(context);
        }
        return exit_code(summary);
    }

    /// Lags, refusals, switches and losses; nothing for one worker.
    static void finish_cluster(const TrainSummary& summary) {
        const WorkerReport all = summary.cluster.total();
        if (summary.workers > 1 && all.pushes > 0) {
            log_info("{}", gradients_fact(all));
        }
        if (summary.brief.episodes > 0) {
            log_info("workers were slow for a moment {}, {} iterations in all",
                     counted(summary.brief.episodes, "time"), summary.brief.iterations);
        }
        if (!summary.predictor_scores.empty()) {
            log_info("{}", predictor_scores_line(summary.predictor_scores));
        }
        if (summary.switches + summary.regroupings > 0) {
            log_info("mode {} at the end, after {} and {}", summary.mode,
                     counted(summary.switches, "switch", "switches"),
                     counted(summary.regroupings, "regrouping"));
        }
        if (!summary.losses.story.empty()) {
            log_warn("{}", summary.losses.story);
        }
    }

    TrainOptions options_;
    bool dry_run_ = false;
};

}  // namespace

void add_train_command(const CommandGroup& all) {
    all.add<TrainCommand>("train", "Train a model on a dataset file");
}

}  // namespace cohort
