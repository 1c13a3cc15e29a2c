#include "jobs/commands/sweep_options.hpp"

#include <fmt/format.h>

#include "cohort/core/require.hpp"
#include "jobs/cli/job_options.hpp"
#include "sim/scenario/option_list.hpp"

namespace cohort {

SimulateOptions parse_simulate(const std::vector<std::string>& arguments) {
    CLI::App app("", "simulate");
    SimulateOptions options;
    each_option(options, DeclareOptions{app});
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return options;
}

std::string check_simulate_option(const std::string& name, const std::string& value) {
    CLI::App app("", "simulate");
    SimulateOptions options;
    each_option(options, DeclareOptions{app});
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    if (option == nullptr || name == "help") {
        return fmt::format("'{}' is not an option of cohort simulate", name);
    }
    const bool truth = value == "true" || value == "false";
    if (option->get_items_expected_max() == 0) {
        return truth ? "" : "not a truth value; expected true or false, got " + value;
    }
    try {
        app.parse(std::vector<std::string>{fmt::format("--{}={}", name, value)});
    } catch (const CLI::ParseError& error) {
        return error.what();
    }
    return truth ? "a value is needed; got " + value : "";
}

SimulateOptions options_of_run(const PlannedRun& run) {
    try {
        return checked(parse_simulate(arguments_of(run)));
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }
}

OptionList overrides_of(const std::vector<std::string>& words) {
    OptionList overrides;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        require(equals != std::string::npos && equals > 0, "--set",
                "NAME=VALUE, an option of cohort simulate", word);
        set_option(overrides, word.substr(0, equals), word.substr(equals + 1));
    }
    return overrides;
}

}  // namespace cohort
