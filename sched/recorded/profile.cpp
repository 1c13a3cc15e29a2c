#include "cohort/recorded/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "cohort/core/error.hpp"
#include "cohort/core/limits.hpp"
#include "core/suggestion.hpp"
#include "data/text/toml_reader.hpp"
#include "sched/recorded/shipped.hpp"

namespace cohort {
namespace {

constexpr Limits<double> kProfileSeconds{.least = 0, .most = 1e6};
constexpr Limits<double> kProfileThreads{.least = 0.001, .most = 1e6};
constexpr Limits<double> kProfileBytes{
    .least = 0, .most = 1e18, .ends = Limits<double>::Ends::kNotLeast};
/// Below a byte a second nothing gets anywhere.
constexpr Limits<double> kProfileRate{.least = 1, .most = 1e18};
constexpr Limits<double> kProfileRateOrNone{.least = 1, .most = 1e18, .or_zero = true};

/// A number of a profile file: its key, where it goes, and what it may be.
template <class T>
struct ProfileField {
    std::string_view key;
    double T::*field = nullptr;
    Limits<double> limits;
    bool required = false;
};

constexpr std::array<ProfileField<ClusterProfile>, 8> kClusterFields{{
    {"cores", &ClusterProfile::cores, kProfileThreads, true},
    {"nic_bytes_per_s", &ClusterProfile::nic_bytes_per_s, kProfileRate, true},
    {"latency_s", &ClusterProfile::latency_s, kProfileSeconds},
    {"local_bytes_per_s", &ClusterProfile::local_bytes_per_s, kProfileRate, true},
    {"memory_bytes_per_s", &ClusterProfile::memory_bytes_per_s, kProfileRate, true},
    {"update_s", &ClusterProfile::update_s, kProfileSeconds},
    {"server_threads", &ClusterProfile::server_threads, kProfileThreads},
    {"device_memory_bytes_per_s", &ClusterProfile::device_memory_bytes_per_s, kProfileRateOrNone},
}};

constexpr std::array<ProfileField<Workload>, 7> kWorkloadFields{{
    {"device_s_per_sample", &Workload::device_s_per_sample, kProfileSeconds, true},
    {"device_s", &Workload::device_s, kProfileSeconds},
    {"cpu_s_per_sample", &Workload::cpu_s_per_sample, kProfileSeconds},
    {"cpu_s", &Workload::cpu_s, kProfileSeconds},
    {"cpu_threads", &Workload::cpu_threads, kProfileThreads},
    {"backward_share", &Workload::backward_share, {.least = 0, .most = 1}},
    {"parameter_bytes", &Workload::parameter_bytes, kProfileBytes, true},
}};

/// A table of the file: takes its keys one after the other; what is left nobody knows.
class TableReader {
public:
    /// @param path  of the table in the file, for messages; empty: the whole file
    TableReader(const toml::table& table, const TomlReader& file, std::string path)
        : table_(table), file_(file), path_(std::move(path)) {}

    std::string text(std::string_view key) {
        const toml::node* node = find(key, false);
        if (node == nullptr) {
            return "";
        }
        if (!node->is_string()) {
            file_.refuse(*node, name(key), "not a text", "a text in quotes");
        }
        return node->ref<std::string>();
    }

    template <class T>
    void number(const ProfileField<T>& field, T& object) {
        const toml::node* node = find(field.key, field.required);
        if (node == nullptr) {
            return;
        }
        const std::optional<double> value =
            node->is_number() ? node->value<double>() : std::nullopt;
        if (!value || !field.limits.contain(*value)) {
            file_.refuse(*node, name(field.key), "cannot be used",
                         "a number, " + field.limits.text());
        }
        object.*(field.field) = *value;
    }

    int count(std::string_view key, int otherwise) {
        const toml::node* node = find(key, false);
        if (node == nullptr) {
            return otherwise;
        }
        const std::optional<std::int64_t> value =
            node->is_integer() ? node->value<std::int64_t>() : std::nullopt;
        if (!value || *value < 1 || *value > 1'000'000) {
            file_.refuse(*node, name(key), "cannot be used", "a whole number from 1 to 1000000");
        }
        return static_cast<int>(*value);
    }

    const toml::table& table(std::string_view key) {
        return file_.table(*find(key, true), name(key));
    }

    /// To be called when all that is known was taken.
    void expect_no_more() const {
        for (const auto& [key, node] : table_) {
            if (std::ranges::find(known_, key.str()) == known_.end()) {
                file_.refuse(node, name(key.str()), "not a key of a profile",
                             fmt::format("{}", fmt::join(known_, ", ")));
            }
        }
    }

private:
    [[nodiscard]] std::string name(std::string_view key) const {
        return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
    }

    const toml::node* find(std::string_view key, bool required) {
        known_.emplace_back(key);
        const toml::node* node = table_.get(key);
        if (node == nullptr && required) {
            file_.refuse(table_, "", "a key is missing", name(key));
        }
        return node;
    }

    const toml::table& table_;
    const TomlReader& file_;
    std::string path_;
    std::vector<std::string> known_;
};

Workload read_workload(const toml::table& table, const TomlReader& file, const std::string& name) {
    TableReader reader(table, file, "workloads." + name);
    Workload workload;
    workload.name = name;
    workload.source = reader.text("source");
    for (const ProfileField<Workload>& field : kWorkloadFields) {
        reader.number(field, workload);
    }
    reader.expect_no_more();
    return workload;
}

ClusterProfile read_profile(const toml::table& root, const TomlReader& file) {
    TableReader reader(root, file, "");
    ClusterProfile profile;
    profile.name = reader.text("name");
    profile.source = reader.text("source");
    profile.devices_per_node = reader.count("devices_per_node", 1);
    for (const ProfileField<ClusterProfile>& field : kClusterFields) {
        reader.number(field, profile);
    }
    const toml::table& workloads = reader.table("workloads");
    reader.expect_no_more();
    if (profile.name.empty()) {
        profile.name = file.path();
    }
    for (const auto& [key, node] : workloads) {
        const std::string name(key.str());
        const toml::table& table = file.table(node, "workloads." + name);
        profile.workloads.emplace(name, read_workload(table, file, name));
    }
    return profile;
}

/// A text in quotes as TOML has them.
std::string toml_quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += {'\\', c};
        } else if ((c >= 0 && c < ' ') || c == '\x7f') {
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + '"';
}

template <class T, class Fields>
void put_numbers(std::string& text, const T& object, const Fields& fields) {
    for (const auto& field : fields) {
        text += fmt::format("{} = {}\n", field.key, object.*(field.field));
    }
}

}  // namespace

const Workload& ClusterProfile::workload(std::string_view workload_name) const {
    const auto found = workloads.find(workload_name);
    if (found == workloads.end()) {
        std::string known;
        for (const auto& [each, unused] : workloads) {
            known += (known.empty() ? "" : ", ") + each;
        }
        fail<UsageError>({.where = "profile " + name,
                          .what = "it has no such workload",
                          .expected = known,
                          .got = workload_name});
    }
    return found->second;
}

ClusterProfile load_profile(const std::string& name_or_file) {
    const TomlReader file(name_or_file, TomlReader::Kind::kData);
    for (const ShippedFile& shipped : shipped_profile_files()) {
        if (shipped.name == name_or_file) {
            return read_profile(file.parse(shipped.bytes), file);
        }
    }
    const bool path = name_or_file.find('/') != std::string::npos ||
                      name_or_file.ends_with(".toml") || std::filesystem::exists(name_or_file);
    if (!path) {
        fail<UsageError>(
            {.where = "--profile",
             .what = "there is no such profile",
             .expected = fmt::format("{}, or a file", fmt::join(shipped_profiles(), ", ")),
             .got = quoted_with_guess(name_or_file, shipped_profiles())});
    }
    return read_profile(file.parse(), file);
}

std::vector<std::string> shipped_profiles() {
    std::vector<std::string> names;
    for (const ShippedFile& shipped : shipped_profile_files()) {
        names.emplace_back(shipped.name);
    }
    return names;
}

std::string to_toml(const ClusterProfile& profile) {
    std::string text =
        fmt::format("name = {}\nsource = {}\ndevices_per_node = {}\n", toml_quoted(profile.name),
                    toml_quoted(profile.source), profile.devices_per_node);
    put_numbers(text, profile, kClusterFields);
    for (const auto& [name, workload] : profile.workloads) {
        text += fmt::format("\n[workloads.{}]\nsource = {}\n", toml_quoted(name),
                            toml_quoted(workload.source));
        put_numbers(text, workload, kWorkloadFields);
    }
    return text;
}

}  // namespace cohort
