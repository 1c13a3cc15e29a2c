// Reads the file of a fleet: tables of keys, options of jobs by their names, drawn jobs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/sim/fleet.hpp"
#include "data/text/toml_reader.hpp"
#include "sim/scenario/option_list.hpp"

namespace cohort {
namespace {

constexpr Limits<int> kFleetNodes{.least = 1, .most = 4096};
constexpr Limits<int> kNodeDevices{.least = 1, .most = 1024, .or_zero = true};
constexpr Limits<int> kDrawnJobs{.least = 1, .most = 100'000};
constexpr Limits<double> kJobsPerHour{
    .least = 0, .most = 1e9, .ends = Limits<double>::Ends::kNotLeast};
constexpr Limits<double> kSigma{.least = 0, .most = 5};
constexpr Limits<double> kLengthMost{.least = 1, .most = 1e6};
constexpr Limits<double> kArrivalSeconds{.least = 0, .most = 1e9};
constexpr std::array<std::string_view, 5> kTables{"cluster", "fleet", "defaults", "arrivals",
                                                  "real"};

/// Options that a job of a fleet cannot have, and what decides instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kNotOfJobs{
    {{"profile", "profile in [cluster]"},
     {"nodes", "nodes in [cluster]; a job's nodes are chosen when it starts"},
     {"server-nodes", "server-placement in [fleet]"},
     {"pattern", "nothing: jobs slow each other down"},
     {"trace", "nothing: jobs slow each other down"},
     {"pattern-seed", "nothing: jobs slow each other down"},
     {"virtual-limit-s", "samples"},
     {"out", "cohort fleet --out"},
     {"overwrite", "cohort fleet --overwrite"},
     {"threads", "cohort fleet --threads"},
     {"record-load", "cohort simulate for a recording"}}};

template <class Visit>
void each_cluster_key(FleetPlan& plan, const Visit& visit) {
    visit({"--profile", ""}, plan.profile);
    visit({"--nodes", ""}, plan.nodes, kFleetNodes);
    visit({"--devices-per-node", ""}, plan.devices_per_node, kNodeDevices);
}

template <class Visit>
void each_fleet_key(FleetPlan& plan, const Visit& visit) {
    visit({"--server-placement", ""}, plan.server_placement);
    visit({"--make-room", ""}, plan.make_room);
    visit({"--label", ""}, plan.label);
}

/// The keys of [arrivals] that are no lists.
template <class Visit>
void each_arrivals_key(FleetArrivals& arrivals, const Visit& visit) {
    visit({"--jobs", ""}, arrivals.jobs, kDrawnJobs);
    visit({"--rate", ""}, arrivals.per_hour, kJobsPerHour);
    visit({"--length-sigma", ""}, arrivals.length_sigma, kSigma);
    visit({"--length-most", ""}, arrivals.length_most, kLengthMost);
    visit({"--seed", ""}, arrivals.seed, kSeedLimits);
}

constexpr std::string_view kCount = "a whole number, 0 or more";

std::optional<int> count_of(const toml::node& node) {
    const std::optional<int> value = node.is_integer() ? node.value<int>() : std::nullopt;
    return value && *value >= 0 ? value : std::nullopt;
}

std::optional<double> weight_of(const toml::node& node) {
    const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
    return value && *value >= 0 && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::string> name_of(const toml::node& node) {
    return node.value<std::string>();
}

std::string list_text(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
        return text_of(node).value_or("");
    }
    std::vector<std::string> texts;
    for (const toml::node& entry : *list) {
        texts.push_back(text_of(entry).value_or(""));
    }
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

class FleetReader : TomlReader {
public:
    explicit FleetReader(const std::string& path) : TomlReader(path) { plan_.file = path; }

    [[nodiscard]] FleetPlan read(const std::vector<std::string>& overrides) {
        toml::table file = parse();
        for (const std::string& text : overrides) {
            put_override(file, text, kTables);
        }
        for (const auto& [key, node] : file) {
            if (key.str() != "job" && std::ranges::find(kTables, key.str()) == kTables.end()) {
                refuse(node, key.str(), "not a key of a fleet",
                       fmt::format("[{}], [[job]]", fmt::join(kTables, "], [")), key.str());
            }
        }
        read_keys(file, "cluster", [&](const auto& visit) { each_cluster_key(plan_, visit); });
        read_keys(file, "fleet", [&](const auto& visit) { each_fleet_key(plan_, visit); });
        read_profile(file);
        if (const toml::table* defaults = table_of(file, "defaults")) {
            put_options(defaults_, *defaults, "");
        }
        for (const toml::table* job : tables(file, "job")) {
            add_listed(*job);
        }
        if (const toml::table* arrivals = table_of(file, "arrivals")) {
            add_drawn(*arrivals);
        }
        if (plan_.jobs.empty()) {
            fail<UsageError>(
                {.where = path(), .what = "no jobs", .expected = "a [[job]], or [arrivals]"});
        }
        read_real(file);
        check_names();
        std::ranges::stable_sort(plan_.jobs, {}, &FleetJob::arrival_s);
        list_settings(file);
        return std::move(plan_);
    }

private:
    [[nodiscard]] const toml::table* table_of(const toml::table& file,
                                              std::string_view name) const {
        const toml::node* node = file.get(name);
        return node == nullptr ? nullptr : &table(*node, name);
    }

    /// Sets the key that a list of keys has under this name. @return false: it has none
    template <class Each>
    bool set_key(const Each& each, const std::string& key, const toml::node& node,
                 const std::string& name) const {
        const std::optional<std::string> text = text_of(node);
        bool known = false;
        std::string expected;
        each(SetOption{
            .name = key, .text = text ? *text : "", .known = known, .expected = expected});
        if (known && (!text || !expected.empty())) {
            refuse(node, name, "the value cannot be used",
                   text ? expected : "a text, a number, true or false",
                   text.value_or("a list or table"));
        }
        return known;
    }

    /// A table all of whose keys are in a list.
    template <class Each>
    void read_keys(const toml::table& file, const std::string& name, const Each& each) const {
        const toml::table* from = table_of(file, name);
        if (from == nullptr) {
            return;
        }
        for (const auto& [key, node] : *from) {
            if (!set_key(each, std::string(key.str()), node, name + "." + std::string(key.str()))) {
                refuse_key(node, name, key.str(), names_of(each));
            }
        }
    }

    template <class Each>
    [[nodiscard]] static std::vector<std::string> names_of(const Each& each) {
        std::vector<std::pair<std::string, std::string>> values;
        each(ListValues{values});
        std::vector<std::string> names;
        for (const auto& [name, value] : values) {
            names.push_back(name);
        }
        return names;
    }

    [[noreturn]] void refuse_key(const toml::node& node, std::string_view name,
                                 std::string_view key,
                                 const std::vector<std::string>& known) const {
        refuse(node, fmt::format("{}.{}", name, key), fmt::format("not a key of [{}]", name),
               fmt::format("{}", fmt::join(known, ", ")), key);
    }

    /// Options of real jobs, which are understood where those are started.
    void read_real(const toml::table& file) {
        const toml::table* from = table_of(file, "real");
        if (from == nullptr) {
            return;
        }
        for (const auto& [key, node] : *from) {
            const std::string name = fmt::format("real.{}", key.str());
            const std::optional<std::string> text = text_of(node);
            if (!text) {
                refuse(node, name, "the value cannot be used", "a text, a number, true or false");
            }
            plan_.real.push_back({std::string(key.str()), *text, where(node, name)});
        }
    }

    /// The profile has the nodes' devices unless the file says otherwise.
    void read_profile(const toml::table& file) {
        try {
            profile_ = load_profile(plan_.profile);
        } catch (const UsageError& error) {
            const toml::table* cluster = table_of(file, "cluster");
            const toml::node* node = cluster != nullptr ? cluster->get("profile") : nullptr;
            throw UsageError(fmt::format(
                "[{}] {}", where(node != nullptr ? *node : file, "cluster.profile"), error.what()));
        }
        if (plan_.devices_per_node == 0) {
            plan_.devices_per_node = profile_.devices_per_node;
        }
        profile_.devices_per_node = plan_.devices_per_node;
    }

    /// The options of a job among the keys of a table. @param job  "job 'a', ", for messages
    void put_options(SimulateOptions& options, const toml::table& from,
                     const std::string& job) const {
        const auto each = [&](const auto& visit) { each_option(options, visit); };
        for (const auto& [name, node] : from) {
            const std::string key(name.str());
            if (!job.empty() && one_of(key, {"name", "arrival"})) {
                continue;
            }
            for (const auto& [other, instead] : kNotOfJobs) {
                if (key == other) {
                    refuse(node, job + key, "not an option of a job of a fleet", instead);
                }
            }
            if (!set_key(each, key, node, job + key)) {
                refuse(node, job + key, "not an option of cohort simulate",
                       "name, arrival, or an option (cohort simulate --help)", key);
            }
        }
    }

    void add_listed(const toml::table& from) {
        const toml::node* name = from.get("name");
        if (name == nullptr) {
            refuse(from, "job", "a job without a name", "name = \"...\"");
        }
        FleetJob job{
            .name = string(*name, "name"), .place = {}, .arrival_s = 0, .options = defaults_};
        const std::string place = fmt::format("job '{}'", job.name);
        if (const toml::node* node = from.get("arrival")) {
            const std::optional<double> value =
                node->is_number() ? node->value<double>() : std::nullopt;
            if (!value || !kArrivalSeconds.contain(*value)) {
                refuse(*node, place + ", arrival", "the value cannot be used",
                       kArrivalSeconds.expected() + " (seconds)", text_of(*node).value_or(""));
            }
            job.arrival_s = *value;
        }
        put_options(job.options, from, place + ", ");
        job.place = where(from, place);
        add(std::move(job));
    }

    void add_drawn(const toml::table& from) {
        const FleetArrivals arrivals = read_arrivals(from);
        plan_.seed = arrivals.seed;
        if (arrivals.length_sigma > 0 && defaults_.samples == 0) {
            refuse(from, "arrivals.length-sigma", "lengths multiply a number of samples",
                   "samples in [defaults]");
        }
        int count = 0;
        for (const DrawnJob& drawn : draw_arrivals(arrivals)) {
            FleetJob job{.name = fmt::format("drawn-{:03}", ++count),
                         .place = {},
                         .arrival_s = drawn.arrival_s,
                         .options = defaults_};
            job.options.workers = drawn.workers;
            if (job.options.arch == Architecture::kServers) {
                job.options.servers = drawn.servers.value_or(job.options.servers);
            }
            job.options.time_as = drawn.workload;
            job.options.seed = drawn.seed;
            job.options.samples = std::max<std::int64_t>(
                std::llround(static_cast<double>(defaults_.samples) * drawn.length),
                std::min<std::int64_t>(defaults_.samples, 1));
            job.place = where(from, fmt::format("[arrivals], job '{}'", job.name));
            add(std::move(job));
        }
    }

    [[nodiscard]] FleetArrivals read_arrivals(const toml::table& from) const {
        FleetArrivals arrivals;
        const auto each = [&](const auto& visit) { each_arrivals_key(arrivals, visit); };
        for (const auto& [name, node] : from) {
            const std::string key(name.str());
            const std::string shown = "arrivals." + key;
            if (key == "workers") {
                arrivals.workers = entries(node, shown, kCount, count_of);
            } else if (key == "servers") {
                arrivals.servers = entries(node, shown, kCount, count_of);
            } else if (key == "weights") {
                arrivals.weights = entries(node, shown, "a number, 0 or more", weight_of);
            } else if (key == "workloads") {
                arrivals.workloads = entries(node, shown, "a name", name_of);
            } else if (!set_key(each, key, node, shown)) {
                std::vector<std::string> known = names_of(each);
                known.insert(known.end(), {"workers", "servers", "weights", "workloads"});
                refuse_key(node, "arrivals", key, known);
            }
        }
        for (const char* key : {"jobs", "rate", "workers", "workloads"}) {
            if (!from.contains(key)) {
                refuse(from, "arrivals", "a key is missing", key);
            }
        }
        if (!arrivals.weights.empty() && std::ranges::max(arrivals.weights) == 0) {
            refuse(*from.get("weights"), "arrivals.weights", "no size has a weight",
                   "at least one above 0");
        }
        check_length(from, "weights", arrivals.weights.size(), arrivals.workers.size());
        check_length(from, "servers", arrivals.servers.size(), arrivals.workers.size());
        return arrivals;
    }

    /// A list with an entry for each size.
    void check_length(const toml::table& from, const char* key, std::size_t length,
                      std::size_t sizes) const {
        if (length > 0 && length != sizes) {
            refuse(*from.get(key), std::string("arrivals.") + key, "another length than workers",
                   fmt::format("{} numbers", sizes), fmt::format("{}", length));
        }
    }

    /// The entries of a list, each as `value_of` has it from a node; none: it cannot be used.
    template <class T>
    [[nodiscard]] std::vector<T> entries(const toml::node& node, const std::string& key,
                                         std::string_view expected,
                                         std::optional<T> (*value_of)(const toml::node&)) const {
        std::vector<T> found;
        const toml::array* list = node.as_array();
        if (list == nullptr || list->empty()) {
            refuse(node, key, "not a list", fmt::format("[{}, ...]", expected),
                   text_of(node).value_or("another kind of value"));
        }
        for (const toml::node& entry : *list) {
            const std::optional<T> value = value_of(entry);
            if (!value) {
                refuse(entry, key, "the value cannot be used", expected,
                       text_of(entry).value_or("another kind of value"));
            }
            found.push_back(*value);
        }
        return found;
    }

    /// Checks the job alone, and that the cluster has room for it.
    void add(FleetJob job) {
        const int devices = plan_.nodes * plan_.devices_per_node;
        if (job.options.workers > devices) {
            fail<UsageError>({.where = job.place,
                              .what = "the job can never start",
                              .expected = fmt::format("at most {} workers, a device each", devices),
                              .got = std::to_string(job.options.workers)});
        }
        try {
            if (job.options.predictor == "oracle") {
                fail<UsageError>({.where = "--predictor",
                                  .what = "nobody knows what other jobs will do",
                                  .expected = "another predictor",
                                  .got = "oracle"});
            }
            require(one_of(job.options.push_tree, {"off", "auto"}), "--push-tree",
                    "off or auto: a job's nodes are chosen when it starts", job.options.push_tree);
            job.options.profile = plan_.profile;
            job.options = checked(std::move(job.options));
            check_profile(job.options, profile_);
        } catch (const UsageError& error) {
            throw UsageError(fmt::format("[{}] {}", job.place, error.what()));
        }
        plan_.jobs.push_back(std::move(job));
    }

    /// Real jobs have folders of their names.
    void check_names() const {
        std::map<std::string_view, const FleetJob*> seen;
        for (const FleetJob& job : plan_.jobs) {
            if (one_of(job.name, {".", "..", kFleetFile, "exit_code", "run.lock"}) ||
                job.name.find('/') != std::string::npos) {
                fail<UsageError>({.where = job.place,
                                  .what = "the name cannot be that of a folder",
                                  .expected = "a name without /",
                                  .got = "'" + job.name + "'"});
            }
            if (!seen.emplace(job.name, &job).second) {
                fail<UsageError>({.where = job.place,
                                  .what = "two jobs of one name",
                                  .expected = "another name",
                                  .got = seen[job.name]->place});
            }
        }
    }

    void list_settings(const toml::table& file) {
        for (const std::string_view name : kTables) {
            if (const toml::table* from = table_of(file, name)) {
                for (const auto& [key, node] : *from) {
                    plan_.settings.emplace_back(fmt::format("{}.{}", name, key.str()),
                                                list_text(node));
                }
            }
        }
        for (const toml::table* job : tables(file, "job")) {
            const auto name = (*job)["name"].value_or(std::string());
            for (const auto& [key, node] : *job) {
                if (key.str() != "name") {
                    plan_.settings.emplace_back(fmt::format("job {}.{}", name, key.str()),
                                                list_text(node));
                }
            }
        }
    }

    FleetPlan plan_;
    ClusterProfile profile_;
    SimulateOptions defaults_;
};

}  // namespace

FleetPlan read_fleet(const std::string& file, const std::vector<std::string>& overrides) {
    return FleetReader(file).read(overrides);
}

}  // namespace cohort
