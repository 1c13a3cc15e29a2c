#include "jobs/cli/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cohort/core/version.hpp"
#include "jobs/cli/config_file.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

std::string escape_table(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        escaped += c == '|' ? "\\|" : std::string(1, c);
    }
    return escaped;
}

std::string option_row(const CLI::Option& option) {
    std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
    return fmt::format("| `{}` | {} | {} | {} |\n", option.get_name(false, true), value,
                       option.get_default_str().empty() ? "" : "`" + option.get_default_str() + "`",
                       escape_table(option.get_description()));
}

/// Errors: UsageError when a word that should name a command does not.
void check_command_words(const CLI::App& root, const std::vector<std::string>& arguments) {
    const CLI::App* app = &root;
    std::string path = root.get_name();
    for (const std::string& word : arguments) {
        std::vector<std::string> names;
        for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
            names.push_back(command->get_name());
        }
        if (names.empty() || word.starts_with('-')) {
            return;
        }
        if (std::find(names.begin(), names.end(), word) == names.end()) {
            fail<UsageError>({.where = path,
                              .what = "there is no such command",
                              .expected = CLI::detail::join(names, ", "),
                              .got = "'" + word + "'",
                              .hint = path + " --help"});
        }
        app = app->get_subcommand(word);
        path += " " + word;
    }
}

}  // namespace

CommandLine::CommandLine() : app_("Trains neural networks data-parallel.", "cohort") {
    app_.set_version_flag("--version",
                          fmt::format("cohort {} ({}, {})", version(), revision(), build_type()));
    app_.require_subcommand(1);
    add(app_, "train", "Train a model on a dataset file", make_train_command());
    add(app_, "simulate", "Train on a virtual cluster, to see what each mode would do there",
        make_simulate_command());
    add(app_, "eval", "Accuracy and loss of a trained model on a dataset", make_eval_command());
    add(app_, "import", "Convert data to the HDF5 layout that training reads",
        make_import_command());
    add(app_, "sweep", "Simulate many runs: modes, patterns and seeds of an experiment",
        make_sweep_command());
    add(app_, "report", "Tables and pictures of a sweep or of simulations, as one HTML page",
        make_report_command());
    add(app_, "info", "Versions and machine; on request also a dataset and the layers of a model",
        make_info_command());
    add(app_, "ctl", "Change the mode of a running job, ask how it stands, or stop it",
        make_ctl_command());
    add(app_, "profile", "Measure what a model costs on this machine, for simulations",
        make_profile_command());
    CLI::App* chooser =
        app_.add_subcommand("chooser", "The regressor of star-ml: training from runs, scores");
    chooser->require_subcommand(1);
    add(*chooser, "train", "Fit the regressor's weights to what runs measured, and say how well",
        make_chooser_train_command());
    add(*chooser, "score", "Apply weights to what runs measured", make_chooser_score_command());
    CLI::App* efficiency = app_.add_subcommand(
        "efficiency", "What stale gradients cost: training from sweeps, scores");
    efficiency->require_subcommand(1);
    add(*efficiency, "train", "Fit the efficiency model to sweeps, and say how well it does",
        make_efficiency_train_command());
    add(*efficiency, "score", "Apply an efficiency model to sweeps",
        make_efficiency_score_command());
    CLI::App* predictor =
        app_.add_subcommand("predictor", "Predictors of workers' times: training, scores");
    predictor->require_subcommand(1);
    add(*predictor, "train", "Train the LSTM predictor from recorded runs",
        make_predictor_train_command());
    add(*predictor, "score", "Replay recorded runs through predictors: how good they are",
        make_predictor_score_command());
    CLI::App* trace = app_.add_subcommand("trace", "What slows workers down, and when");
    trace->require_subcommand(1);
    add(*trace, "make", "Write a pattern as a trace", make_trace_make_command());
    add(*trace, "show", "A picture of a pattern or a trace: workers, time, speed",
        make_trace_show_command());
    CLI::App* bench = app_.add_subcommand("bench", "Measure parts of the program");
    bench->require_subcommand(1);
    add(*bench, "engine", "Time of training steps on synthetic data", make_bench_engine_command());
    add(*bench, "exchange", "Time of the exchange between the ranks that mpirun starts",
        make_bench_exchange_command());
}

void CommandLine::add(CLI::App& parent, const std::string& name, const std::string& description,
                      std::unique_ptr<Command> command) {
    leaves_.push_back(std::make_unique<Leaf>());
    Leaf& leaf = *leaves_.back();
    leaf.app = parent.add_subcommand(name, description);
    leaf.command = std::move(command);
    leaf.command->declare(*leaf.app);
    leaf.app
        ->add_option("--config", leaf.config,
                     "Read options from this file (TOML: name = value); the command line wins")
        ->type_name("FILE");
    leaf.app->add_flag("--dump-config", leaf.dump_config,
                       "Print the options in force as a config file and stop");
}

CommandLine::Leaf& CommandLine::parse(std::vector<std::string> arguments) {
    app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    for (const std::unique_ptr<Leaf>& leaf : leaves_) {
        if (leaf->app->parsed()) {
            return *leaf;
        }
    }
    fail<UsageError>({.where = "command line", .what = "no command", .hint = "cohort --help"});
}

ExitCode CommandLine::run(int argc, const char* const* argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments == std::vector<std::string>{"options", "--markdown"}) {
        std::fputs(markdown().c_str(), stdout);
        return ExitCode::kDone;
    }
    check_command_words(app_, arguments);
    Leaf& leaf = parse(arguments);
    if (leaf.config.empty()) {
        return run(leaf, {});
    }
    const ConfigArguments file = arguments_from_config(leaf.config, *leaf.app);
    const bool nested = leaf.app->get_parent() != &app_;
    arguments.insert(arguments.begin() + (nested ? 2 : 1), file.arguments.begin(),
                     file.arguments.end());
    try {
        return run(parse(arguments), file.places);
    } catch (const CLI::ParseError& error) {
        fail_in_config(error.what(), file.places);
        throw;
    } catch (const UsageError& error) {
        fail_in_config(error.what(), file.places);
        throw;
    }
}

ExitCode CommandLine::run(const Leaf& leaf, const ConfigPlaces& places) {
    CommandContext context{.env = read_launch_env(),
                           .options = effective_options(*leaf.app, places, leaf.config),
                           .config = leaf.config};
    if (leaf.dump_config) {
        std::fputs(config_text(context.options).c_str(), stdout);
        return ExitCode::kDone;
    }
    return leaf.command->run(context);
}

ExitCode CommandLine::report(const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage;
}

std::string CommandLine::markdown() {
    std::string text =
        "# Options\n\nMade by `cohort options --markdown` from the program's own help; do not edit."
        " Precedence: default < config file < command line; `--samples` there also goes before "
        "`epochs` in"
        " the file, and the other way round. A config file is TOML, a line per option: `lr = 0.1`,"
        " `model = \"lenet\"`, `resume = true`, `input = [\"a.npy\", \"b.npy\"]`, at the top or "
        "below"
        " `[train]`; `--dump-config` prints one.\n";
    for (const std::unique_ptr<Leaf>& leaf : leaves_) {
        const bool nested = leaf->app->get_parent() != &app_;
        text += fmt::format(
            "\n## cohort {}{}\n\n{}.\n\n| option | value | default | meaning |\n"
            "|---|---|---|---|\n",
            nested ? leaf->app->get_parent()->get_name() + " " : "", leaf->app->get_name(),
            leaf->app->get_description());
        for (const CLI::Option* option : leaf->app->get_options()) {
            if (option->get_name() != "--help") {
                text += option_row(*option);
            }
        }
    }
    return text;
}

}  // namespace cohort
