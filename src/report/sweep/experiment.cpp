#include "cohort/report/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "data/text/toml_reader.hpp"

namespace cohort {
namespace {

/// An option that is not allowed in a table, and what to write instead.
struct Refused {
    std::string_view name;
    std::string_view instead;
};

/// Options that the sweep itself sets: allowed nowhere.
constexpr std::array<Refused, 5> kOwnOptions{
    {{"seed", "seeds = [1, 2, 3] at the top of the file"},
     {"pattern-seed", "pattern-seeds = [1, 2, 3] at the top of the file"},
     {"out", "cohort sweep --out"},
     {"overwrite", "nothing: a finished run is kept"},
     {"threads", "cohort sweep --jobs"}}};

// Options that another table sets: they would be ignored, or contradict the name of a row or column
// of the table.
constexpr std::string_view kRows = "one [[mode]] for each row of the table";
constexpr std::string_view kColumns = "patterns = [...] at the top of the file, or [[pattern]]";
constexpr std::string_view kRates = "lr in [[mode]], [tuning] or [job]";
constexpr std::array<Refused, 4> kNotInJob{
    {{"mode", kRows}, {"mode-schedule", kRows}, {"pattern", kColumns}, {"trace", kColumns}}};
constexpr std::array<Refused, 2> kNotInMode{{{"pattern", kColumns}, {"trace", kColumns}}};
constexpr std::array<Refused, 3> kNotInPattern{
    {{"mode", kRows}, {"mode-schedule", kRows}, {"lr", kRates}}};
constexpr std::array<Refused, 3> kNotInTuning{
    {{"mode", kRows}, {"mode-schedule", kRows}, {"trace", "pattern = \"NAME:STRENGTH\""}}};

/// Nodes are moved: a copy would not know its place in the file.
void move_into(toml::table& to, std::string_view key, toml::node& node) {
    node.visit([&](auto& value) { to.insert_or_assign(key, std::move(value)); });
}

/// Adds the content of `node` to the table's content under this key.
void put_on(toml::table& base, std::string_view key, toml::node& node) {
    toml::node* const below = base.get(key);
    if (below != nullptr && one_of(key, {"job", "tuning"}) && below->is_table() &&
        node.is_table()) {
        for (auto&& [name, value] : *node.as_table()) {
            move_into(*below->as_table(), name.str(), value);
        }
    } else if (below != nullptr && one_of(key, {"mode", "pattern"}) &&
               below->is_array_of_tables() && node.is_array_of_tables()) {
        for (toml::node& entry : *node.as_array()) {
            below->as_array()->push_back(std::move(*entry.as_table()));
        }
    } else {
        move_into(base, key, node);
    }
}

/// Reads the file of an experiment and merges it into the experiment that its key `base` names, if
/// it has that key: a path relative to the file's folder. Options of [job] and [tuning] replace
/// those of the same name, [[mode]] and [[pattern]] follow those of the base, every other key
/// replaces the base's. @param seen  files based on this one
/// Errors: as TomlReader::parse; UsageError for files that are based on each other.
toml::table read_with_base(const std::string& path, std::vector<std::filesystem::path> seen = {}) {
    const TomlReader reader(path);
    toml::table own = reader.parse();
    const toml::node* const key = own.get("base");
    if (key == nullptr) {
        return own;
    }
    std::error_code ignored;
    seen.push_back(std::filesystem::weakly_canonical(path, ignored));
    const std::filesystem::path base =
        std::filesystem::path(path).parent_path() / reader.string(*key, "base");
    if (std::ranges::find(seen, std::filesystem::weakly_canonical(base, ignored)) != seen.end()) {
        reader.refuse(*key, "base", "files that are based on each other",
                      "one that is not based on this one", base.string());
    }
    own.erase("base");
    toml::table merged = read_with_base(base.string(), std::move(seen));
    for (auto&& [name, node] : own) {
        put_on(merged, name.str(), node);
    }
    return merged;
}

/// Reads the file's tables.
class ExperimentReader : TomlReader {
public:
    ExperimentReader(std::string path, const OptionCheck& check)
        : TomlReader(std::move(path)), check_(check) {}

    [[nodiscard]] Experiment read(const OptionList& overrides) {
        const toml::table file = read_with_base(path());
        for (const auto& [key, node] : file) {
            if (!one_of(key.str(), {"title", "job", "mode", "pattern", "patterns", "seeds",
                                    "pattern-seeds", "tuning"})) {
                refuse(node, key.str(), "not a key of an experiment",
                       "title, base, seeds, pattern-seeds, patterns, [job], [[mode]], "
                       "[[pattern]], [tuning]",
                       key.str());
            }
        }
        Experiment experiment;
        if (const toml::node* title = file.get("title")) {
            experiment.title = string(*title, "title");
        }
        if (const toml::node* job = file.get("job")) {
            experiment.job = job_options(table(*job, "job"));
        }
        for (const auto& [name, value] : overrides) {
            check_option(name, value, fmt::format("--set {}", name), kNotInJob);
            set_option(experiment.job, name, value);
        }
        experiment.seeds = seeds(file);
        read_patterns(file, experiment);
        read_modes(file, experiment);
        read_tuning(file, experiment);
        return experiment;
    }

private:
    static void check_place(const std::string& name, const std::string& place,
                            std::string_view what, std::span<const Refused> refused) {
        for (const Refused& option : refused) {
            if (name == option.name) {
                fail<UsageError>({.where = place, .what = what, .expected = option.instead});
            }
        }
    }

    void check_option(const std::string& name, const std::string& value, const std::string& place,
                      std::span<const Refused> refused = {}) const {
        check_place(name, place, "set by the sweep itself", kOwnOptions);
        check_place(name, place, "cannot be set here", refused);
        const std::string wrong = check_(name, value);
        if (!wrong.empty()) {
            fail<UsageError>({.where = place, .what = wrong});
        }
    }

    /// One option of `cohort simulate`.
    void add_option(OptionList& list, const std::string& key, const toml::node& node,
                    std::span<const Refused> refused) const {
        const std::optional<std::string> value = text_of(node);
        if (!value) {
            refuse(node, key, "not a value of an option", "a text, a number, true or false",
                   "a list or table");
        }
        check_option(key, *value, where(node, key), refused);
        set_option(list, key, *value);
    }

    /// All keys of [job].
    [[nodiscard]] OptionList job_options(const toml::table& from) const {
        OptionList list;
        for (const auto& [key, node] : from) {
            if (key.str() == "lr" && node.is_array()) {
                refuse(node, "lr", "a list to choose from stands in [tuning] or a [[mode]]",
                       "one number", "a list");
            }
            add_option(list, std::string(key.str()), node, kNotInJob);
        }
        return list;
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

    [[nodiscard]] ExperimentPattern generated_pattern(const toml::node& node,
                                                      std::string_view key) const {
        const std::string name = string(node, key);
        check_option("pattern", name, where(node, key));
        return {.name = name, .options = {{"pattern", name}}};
    }

    void read_patterns(const toml::table& file, Experiment& experiment) const {
        if (const toml::node* list = file.get("patterns")) {
            const toml::array* names = list->as_array();
            if (names == nullptr) {
                refuse(*list, "patterns", "not a list", "[\"healthy\", \"persistent:2\"]",
                       text_of(*list).value_or("a table"));
            }
            for (const toml::node& entry : *names) {
                add_pattern(experiment, generated_pattern(entry, "patterns"), entry);
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
                add_option(found.options, std::string(key.str()), node, kNotInPattern);
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
            fail<UsageError>({.where = path(),
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
            } else if (key.str() == "versus") {
                found.versus = truth(node, "versus");
            } else if (key.str() == "lr") {
                found.lr = rates(node);
            } else {
                add_option(found.options, std::string(key.str()), node, kNotInMode);
            }
        }
        std::string of_mode = option_of(found.options, "mode");
        of_mode = of_mode.empty() ? option_of(found.options, "mode-schedule") : of_mode;
        if (of_mode.empty()) {
            refuse(from, "mode", "a table without a mode", "mode = \"NAME\" or mode-schedule",
                   "none");
        }
        found.name = found.name.empty() ? of_mode : found.name;
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
                experiment.tuning.pattern = generated_pattern(entry, "pattern");
            } else if (!one_of(key.str(), {"seeds", "pattern-seeds"})) {
                add_option(experiment.tuning.options, std::string(key.str()), entry, kNotInTuning);
            }
        }
    }

    const OptionCheck& check_;
};

auto find_option(auto& options, const std::string& name) {
    return std::ranges::find(options, name, &OptionList::value_type::first);
}

}  // namespace

void set_option(OptionList& options, const std::string& name, const std::string& value) {
    if (const auto found = find_option(options, name); found != options.end()) {
        found->second = value;
    } else {
        options.emplace_back(name, value);
    }
}

bool has_option(const OptionList& options, const std::string& name) {
    return find_option(options, name) != options.end();
}

std::string option_of(const OptionList& options, const std::string& name) {
    const auto found = find_option(options, name);
    return found == options.end() ? std::string() : found->second;
}

Experiment read_experiment(const std::string& path, const OptionList& overrides,
                           const OptionCheck& check) {
    return ExperimentReader(path, check).read(overrides);
}

}  // namespace cohort
