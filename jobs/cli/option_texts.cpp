#include "jobs/cli/option_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <vector>

#include "cohort/core/version.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/sched/modes.hpp"

namespace cohort {
namespace {

constexpr const char* kOrder =
    "Precedence: default < config file < command line; `--samples` there also goes before `epochs` "
    "in the file, and the other way round. A config file is TOML, a line per option: `lr = 0.1`, "
    "`model = \"lenet\"`, `resume = true`, `input = [\"a.npy\", \"b.npy\"]`, at the top or below "
    "`[train]`; `--dump-config` prints one.";

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Calls f with each command that runs, and with its name ("bench engine").
template <class F>
void each_command(const CLI::App& root, F&& f) {
    for (const CLI::App* app : commands_below(root)) {
        const std::vector<const CLI::App*> below = commands_below(*app);
        for (const CLI::App* leaf : below) {
            f(*leaf, app->get_name() + " " + leaf->get_name());
        }
        if (below.empty()) {
            f(*app, app->get_name());
        }
    }
}

/// Calls f with each option of a command, but for --help.
template <class F>
void each_option(const CLI::App& command, F&& f) {
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_name() != "--help") {
            f(*option);
        }
    }
}

/// What an option takes, as "INT" or "TEXT:{a,b}"; empty for a flag.
std::string type_of(const CLI::Option& option) {
    return option.get_items_expected_max() == 0 ? "" : option.get_type_name();
}

std::string escape_table(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        escaped += c == '|' ? "\\|" : std::string(1, c);
    }
    return escaped;
}

std::string markdown(const CLI::App& root) {
    std::string text = fmt::format(
        "# Options\n\nMade by `cohort options --markdown` from the program's own help; do not "
        "edit. {}\n",
        kOrder);
    each_command(root, [&](const CLI::App& command, const std::string& name) {
        text += fmt::format(
            "\n## cohort {}\n\n{}.\n\n| option | value | default | meaning |\n|---|---|---|---|\n",
            name, command.get_description());
        each_option(command, [&](const CLI::Option& option) {
            const std::string& value = option.get_default_str();
            text += fmt::format("| `{}` | {} | {} | {} |\n", option.get_name(false, true),
                                type_of(option), value.empty() ? "" : "`" + value + "`",
                                escape_table(option.get_description()));
        });
    });
    return text;
}

/// Text of a manual page: no character of it is a request or becomes another one.
std::string roff(const std::string& text) {
    static const std::map<char, const char*> others{{'\\', "\\e"},  {'\'', "\\(aq"}, {'`', "\\(ga"},
                                                    {'^', "\\(ha"}, {'~', "\\(ti"},  {'-', "\\-"}};
    std::string result = text.starts_with('.') ? "\\&" : "";
    for (const char c : text) {
        const auto other = others.find(c);
        result += other == others.end() ? std::string(1, c) : other->second;
    }
    return result;
}

std::string man(const CLI::App& root) {
    std::string text = fmt::format(
        ".TH COHORT 1 \"\" \"cohort {}\" \"User Commands\"\n.SH NAME\ncohort \\- trains neural "
        "networks data\\-parallel and tolerates slow workers\n.SH SYNOPSIS\n.B cohort\n"
        ".I COMMAND\n[\\fIOPTION\\fR]...\n.br\n.B cohort\n\\-\\-version\n.SH DESCRIPTION\n"
        "Each command has its own options. The documentation is in share/doc/cohort of the "
        "installation.\n.PP\n{}\n"
        ".SH COMMANDS\n",
        version(), roff(kOrder));
    each_command(root, [&](const CLI::App& command, const std::string& name) {
        text += fmt::format(".SS cohort {}\n{}.\n", roff(name), roff(command.get_description()));
        each_option(command, [&](const CLI::Option& option) {
            const std::string& value = option.get_default_str();
            text += fmt::format(".TP\n\\fB{}\\fR \\fI{}\\fR\n{}{}\n",
                                roff(option.get_name(false, true)), roff(type_of(option)),
                                roff(option.get_description()),
                                value.empty() ? "" : fmt::format(" [default: {}]", roff(value)));
        });
    });
    return text + ".SH SEE ALSO\n.BR cohort\\-launch (1)\n";
}

/// Values of an option that are known, without what may follow: "static" of "static:X".
std::set<std::string> known_values(const CLI::Option& option) {
    std::vector<std::string> values;
    const std::string type = type_of(option);
    if (option.get_name() == "--model") {
        values = model_names();
    } else if (option.get_name() == "--mode") {
        values = mode_names(Architecture::kServers);
        const std::vector<std::string> others = mode_names(Architecture::kRing);
        values.insert(values.end(), others.begin(), others.end());
    } else if (const auto begin = type.find('{'); begin != std::string::npos) {
        values = CLI::detail::split(type.substr(begin + 1, type.find('}') - begin - 1), ',');
    }
    std::set<std::string> words;
    for (const std::string& value : values) {
        words.insert(value.substr(0, value.find_first_of(":[")));
    }
    return words;
}

/// What else completes a value: compgen's option for names of files or folders.
const char* completed_names(const CLI::Option& option) {
    const std::string type = type_of(option);
    if (type == "FILE" || type == "PATH" || option.get_name() == "--model") {
        return " files=(-f)";
    }
    return type == "DIR" ? " files=(-d)" : "";
}

/// A branch of bash's `case`. @param body  one line
std::string branch(std::string_view pattern, const std::string& body, int depth) {
    return fmt::format("{:{}}{}) {} ;;\n", "", 4 * depth, pattern, body);
}

template <class Words>
std::string words_are(const Words& words) {
    return fmt::format("words='{}'", fmt::join(words, " "));
}

/// The branch that completes the options of a command and their values.
std::string completion_of(const CLI::App& command, const std::string& name) {
    std::vector<std::string> options;
    std::string values;
    std::string arguments;
    each_option(command, [&](const CLI::Option& option) {
        const std::string word = option.get_name();
        const std::string names = completed_names(option);
        if (!word.starts_with("--")) {  // where no option comes before
            arguments += names.empty() ? "" : branch("*", names.substr(1), 4);
            return;
        }
        options.push_back(word);
        if (option.get_items_expected_max() > 0) {
            values += branch(word, words_are(known_values(option)) + names, 4);
        }
    });
    return fmt::format(
        "        '{}')\n            {}\n            case $previous in\n{}{}"
        "            esac\n            ;;\n",
        name, words_are(options), values, arguments);
}

constexpr const char* kBashBegin =
    R"(# Completion of cohort and cohort-launch for bash, made by `cohort options --bash`.
# shellcheck shell=bash
_cohort() {
    local at=0 last=$COMP_CWORD cur previous command='' words='' files=()
    if [[ ${1##*/} == cohort-launch ]]; then # the program's words come after --
        until [[ ${COMP_WORDS[at]} == -- ]]; do
            ((++at < last)) || return
        done
    fi
    cur=${COMP_WORDS[last]} previous=${COMP_WORDS[last - 1]}
    if [[ $cur == = ]]; then # of --option=value
        cur=''
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[last - 2]}
    fi
    if ((last > at + 1)); then
        command=${COMP_WORDS[at + 1]}
        case $command in
)";
constexpr const char* kBashMiddle = R"(        esac
    fi
    case $command in
)";
constexpr const char* kBashEnd = R"(    esac
    [[ ${#files[@]} == 0 ]] || compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "${files[@]}" -W "$words" -- "$cur")
}
complete -F _cohort cohort cohort-launch
)";

std::string bash(const CLI::App& root) {
    std::vector<std::string> first{"--help", "--version"};
    std::vector<std::string> groups;
    std::string cases;
    for (const CLI::App* app : commands_below(root)) {
        first.push_back(app->get_name());
        std::vector<std::string> second;
        for (const CLI::App* leaf : commands_below(*app)) {
            second.push_back(leaf->get_name());
        }
        if (!second.empty()) {
            groups.push_back(app->get_name());
            cases += branch("'" + app->get_name() + "'", words_are(second), 2);
        }
    }
    cases += branch("''", words_are(first), 2);
    each_command(root, [&](const CLI::App& command, const std::string& name) {
        cases += completion_of(command, name);
    });
    const std::string two_words = "((last == at + 2)) || command+=\" ${COMP_WORDS[at + 2]}\"";
    return kBashBegin + branch(fmt::format("{}", fmt::join(groups, " | ")), two_words, 3) +
           kBashMiddle + cases + kBashEnd;
}

}  // namespace

std::optional<std::string> option_text(const CLI::App& root, std::string_view form) {
    static const std::map<std::string_view, std::string (*)(const CLI::App&)> forms{
        {"--markdown", markdown}, {"--man", man}, {"--bash", bash}};
    const auto found = forms.find(form);
    return found == forms.end() ? std::nullopt : std::optional(found->second(root));
}

}  // namespace cohort
