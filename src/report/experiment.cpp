#include "cohort/report/experiment.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"

namespace cohort {
namespace {

/// Options that the sweep itself sets, and what is to be written instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOwnOptions{
    {{"seed", "seeds = [1, 2, 3] at the top of the file"},
     {"pattern-seed", "pattern-seeds = [1, 2, 3] at the top of the file"},
     {"out", "cohort sweep --out"},
     {"overwrite", "nothing: a finished run is kept"},
     {"threads", "cohort sweep --jobs"}}};

bool one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// A scalar as the command line writes it; none for anything else.
std::optional<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) {
        return text->get();
    }
    if (const auto* whole = node.as_integer()) {
        return fmt::format("{}", whole->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return fmt::format("{}", number->get());
    }
    if (const auto* truth = node.as_boolean()) {
        return truth->get() ? "true" : "false";
    }
    return std::nullopt;
}

/// Takes the file's tables apart.
class ExperimentReader {
public:
    ExperimentReader(std::string path, const OptionCheck& check)
        : path_(std::move(path)), check_(check) {}

    [[nodiscard]] Experiment read(const OptionList& overrides) {
        const toml::table file = parse();
        for (const auto& [key, node] : file) {
            if (!one_of(key.str(), {"title", "job", "mode", "pattern", "patterns", "seeds",
                                    "pattern-seeds", "tuning"})) {
                refuse(node, key.str(), "not a key of an experiment",
                       "title, seeds, pattern-seeds, patterns, [job], [[mode]], [[pattern]], "
                       "[tuning]",
                       key.str());
            }
        }
        Experiment experiment;
        if (const toml::node* title = file.get("title")) {
            experiment.title = string(*title, "title");
        }
        if (const toml::node* job = file.get("job")) {
            experiment.job = options(table(*job, "job"), {"lr"});
        }
        for (const auto& [name, value] : overrides) {
            check_option(name, value, fmt::format("--set {}", name));
            set_option(experiment.job, name, value);
        }
        experiment.seeds = seeds(file);
        read_patterns(file, experiment);
        read_modes(file, experiment);
        read_tuning(file, experiment);
        return experiment;
    }

private:
    [[nodiscard]] toml::table parse() const {
        const std::string text = read_text_file(path_);
        try {
            return toml::parse(text, path_);
        } catch (const toml::parse_error& error) {
            fail<UsageError>({.where = fmt::format("{}, line {}", path_, error.source().begin.line),
                              .what = "the line cannot be understood",
                              .got = error.description()});
        }
    }

    [[nodiscard]] std::string where(const toml::node& node, std::string_view key) const {
        return fmt::format("{}, line {}, {}", path_, node.source().begin.line, key);
    }

    [[noreturn]] void refuse(const toml::node& node, std::string_view key, std::string_view what,
                             std::string_view expected, std::string_view got) const {
        fail<UsageError>(
            {.where = where(node, key), .what = what, .expected = expected, .got = got});
    }

    [[nodiscard]] const toml::table& table(const toml::node& node, std::string_view key) const {
        const toml::table* found = node.as_table();
        if (found == nullptr) {
            refuse(node, key, "not a table", fmt::format("[{}] and lines below it", key),
                   "a value");
        }
        return *found;
    }

    [[nodiscard]] std::string string(const toml::node& node, std::string_view key) const {
        const auto* text = node.as_string();
        if (text == nullptr || text->get().empty() || text->get().find('\n') != std::string::npos) {
            refuse(node, key, "not a line of text", "one line in quotes",
                   text_of(node).value_or("another kind of value"));
        }
        return text->get();
    }

    [[nodiscard]] bool truth(const toml::node& node, std::string_view key) const {
        const auto* value = node.as_boolean();
        if (value == nullptr) {
            refuse(node, key, "not a truth value", "true or false",
                   text_of(node).value_or("another kind of value"));
        }
        return value->get();
    }

    void check_option(const std::string& name, const std::string& value,
                      const std::string& place) const {
        for (const auto& [own, instead] : kOwnOptions) {
            if (name == own) {
                fail<UsageError>(
                    {.where = place, .what = "set by the sweep itself", .expected = instead});
            }
        }
        const std::string wrong = check_(name, value);
        if (!wrong.empty()) {
            fail<UsageError>({.where = place, .what = wrong});
        }
    }

    /// One option of `cohort simulate`.
    void add_option(OptionList& list, const std::string& key, const toml::node& node) const {
        const std::optional<std::string> value = text_of(node);
        if (!value) {
            refuse(node, key, "not a value of an option", "a text, a number, true or false",
                   "a list or table");
        }
        check_option(key, *value, where(node, key));
        set_option(list, key, *value);
    }

    /// All keys of a table as options.
    [[nodiscard]] OptionList options(const toml::table& from,
                                     std::initializer_list<std::string_view> also_lists) const {
        OptionList list;
        for (const auto& [key, node] : from) {
            if (one_of(key.str(), also_lists) && node.is_array()) {
                refuse(node, key.str(), "a list to choose from stands in [tuning] or a [[mode]]",
                       "one number", "a list");
            }
            add_option(list, std::string(key.str()), node);
        }
        return list;
    }

    /// A number, or a list of at least one.
    template <class T>
    [[nodiscard]] std::vector<T> numbers(const toml::node& node, std::string_view key) const {
        std::vector<T> found;
        const auto add = [&](const toml::node& entry) {
            const std::optional<T> number = entry.value<T>();
            if (!number || !entry.is_number() || std::signbit(static_cast<double>(*number))) {
                refuse(entry, key, "not a number that can be used here", "0 or more",
                       text_of(entry).value_or("another kind of value"));
            }
            if (std::find(found.begin(), found.end(), *number) != found.end()) {
                refuse(entry, key, "the number comes twice", "different ones",
                       text_of(entry).value_or(""));
            }
            found.push_back(*number);
        };
        if (const toml::array* list = node.as_array()) {
            for (const toml::node& entry : *list) {
                add(entry);
            }
        } else {
            add(node);
        }
        if (found.empty()) {
            refuse(node, key, "an empty list", "at least one number", "[]");
        }
        return found;
    }

    /// `seeds` and `pattern-seeds` of a table; {1, 1} without any.
    [[nodiscard]] std::vector<ExperimentSeed> seeds(const toml::table& from) const {
        const toml::node* jobs = from.get("seeds");
        const toml::node* patterns = from.get("pattern-seeds");
        const auto first = jobs != nullptr ? numbers<std::uint64_t>(*jobs, "seeds")
                                           : std::vector<std::uint64_t>{1};
        const auto second =
            patterns != nullptr ? numbers<std::uint64_t>(*patterns, "pattern-seeds") : first;
        if (first.size() != second.size()) {
            refuse(*patterns, "pattern-seeds", "another length than seeds",
                   fmt::format("{} numbers", first.size()), fmt::format("{}", second.size()));
        }
        std::vector<ExperimentSeed> pairs;
        for (std::size_t i = 0; i < first.size(); ++i) {
            pairs.push_back({first[i], second[i]});
        }
        return pairs;
    }

    void read_patterns(const toml::table& file, Experiment& experiment) const {
        if (const toml::node* list = file.get("patterns")) {
            const toml::array* names = list->as_array();
            if (names == nullptr) {
                refuse(*list, "patterns", "not a list", "[\"healthy\", \"persistent:2\"]",
                       text_of(*list).value_or("a table"));
            }
            for (const toml::node& entry : *names) {
                const std::string name = string(entry, "patterns");
                check_option("pattern", name, where(entry, "patterns"));
                add_pattern(experiment, {.name = name, .options = {{"pattern", name}}}, entry);
            }
        }
        for (const toml::table* table : tables(file, "pattern")) {
            add_pattern(experiment, pattern(*table), *table);
        }
        if (experiment.patterns.empty()) {
            experiment.patterns.push_back(ExperimentTuning{}.pattern);
        }
    }

    [[nodiscard]] ExperimentPattern pattern(const toml::table& from) const {
        ExperimentPattern found;
        for (const auto& [key, node] : from) {
            if (key.str() == "name") {
                found.name = string(node, "name");
            } else {
                add_option(found.options, std::string(key.str()), node);
            }
        }
        const std::string of_pattern = option_of(found.options, "pattern");
        const std::string of_trace = option_of(found.options, "trace");
        if (of_pattern.empty() == of_trace.empty()) {
            refuse(from, "pattern", "a pattern is a generated one or a trace file",
                   "either pattern = \"NAME:STRENGTH\" or trace = \"FILE\"",
                   of_pattern.empty() ? "neither" : "both");
        }
        if (found.name.empty()) {
            found.name = of_pattern.empty() ? of_trace : of_pattern;
        }
        return found;
    }

    void add_pattern(Experiment& experiment, ExperimentPattern found, const toml::node& at) const {
        for (const ExperimentPattern& other : experiment.patterns) {
            if (other.name == found.name) {
                refuse(at, "pattern", "two patterns of one name",
                       "name = \"...\" to tell them apart", found.name);
            }
        }
        experiment.patterns.push_back(std::move(found));
    }

    /// The tables of [[key]].
    [[nodiscard]] std::vector<const toml::table*> tables(const toml::table& file,
                                                         std::string_view key) const {
        std::vector<const toml::table*> found;
        const toml::node* node = file.get(key);
        if (node == nullptr) {
            return found;
        }
        const toml::array* list = node->as_array();
        if (list == nullptr || !list->is_array_of_tables()) {
            refuse(*node, key, "not a list of tables", fmt::format("[[{}]]", key),
                   "something else");
        }
        for (const toml::node& entry : *list) {
            found.push_back(entry.as_table());
        }
        return found;
    }

    void read_modes(const toml::table& file, Experiment& experiment) const {
        for (const toml::table* from : tables(file, "mode")) {
            ExperimentMode found = mode(*from);
            for (const ExperimentMode& other : experiment.modes) {
                if (other.name == found.name) {
                    refuse(*from, "mode", "two modes of one name",
                           "name = \"...\" to tell them apart", found.name);
                }
                if (other.reference && found.reference) {
                    refuse(*from, "mode", "two modes are the reference", "one", found.name);
                }
            }
            experiment.modes.push_back(std::move(found));
        }
        if (experiment.modes.empty()) {
            fail<UsageError>({.where = path_,
                              .what = "no modes to compare",
                              .expected = "at least one [[mode]] with mode = \"NAME\""});
        }
    }

    [[nodiscard]] ExperimentMode mode(const toml::table& from) const {
        ExperimentMode found;
        for (const auto& [key, node] : from) {
            if (key.str() == "name") {
                found.name = string(node, "name");
            } else if (key.str() == "cites") {
                found.cites = string(node, "cites");
            } else if (key.str() == "role") {
                found.role = string(node, "role");
                if (!one_of(found.role, {"ours", "baseline"})) {
                    refuse(node, "role", "not a role", "ours or baseline", found.role);
                }
            } else if (key.str() == "fixed") {
                found.fixed = truth(node, "fixed");
            } else if (key.str() == "reference") {
                found.reference = truth(node, "reference");
            } else if (key.str() == "lr") {
                found.lr = rates(node);
            } else {
                add_option(found.options, std::string(key.str()), node);
            }
        }
        const std::string of_mode = option_of(found.options, "mode");
        if (of_mode.empty() && option_of(found.options, "mode-schedule").empty()) {
            refuse(from, "mode", "a table without a mode", "mode = \"NAME\" or mode-schedule",
                   "none");
        }
        if (found.name.empty()) {
            found.name = of_mode.empty() ? option_of(found.options, "mode-schedule") : of_mode;
        }
        return found;
    }

    [[nodiscard]] std::vector<double> rates(const toml::node& node) const {
        std::vector<double> found = numbers<double>(node, "lr");
        for (const double rate : found) {
            check_option("lr", fmt::format("{}", rate), where(node, "lr"));
        }
        return found;
    }

    void read_tuning(const toml::table& file, Experiment& experiment) const {
        const toml::node* node = file.get("tuning");
        if (node == nullptr) {
            experiment.tuning.seeds = {experiment.seeds.front()};
            return;
        }
        const toml::table& from = table(*node, "tuning");
        experiment.tuning.seeds = seeds(from);
        for (const auto& [key, entry] : from) {
            if (key.str() == "lr") {
                const std::vector<double> grid = rates(entry);
                for (ExperimentMode& mode : experiment.modes) {
                    mode.lr = mode.lr.empty() ? grid : mode.lr;
                }
            } else if (key.str() == "pattern") {
                const std::string name = string(entry, "pattern");
                check_option("pattern", name, where(entry, "pattern"));
                experiment.tuning.pattern = {.name = name, .options = {{"pattern", name}}};
            } else if (!one_of(key.str(), {"seeds", "pattern-seeds"})) {
                add_option(experiment.tuning.options, std::string(key.str()), entry);
            }
        }
    }

    std::string path_;
    const OptionCheck& check_;
};

}  // namespace

Experiment read_experiment(const std::string& path, const OptionList& overrides,
                           const OptionCheck& check) {
    return ExperimentReader(path, check).read(overrides);
}

}  // namespace cohort
