#include <fmt/format.h>

#include "cohort/formats/profile.hpp"
#include "formats/profile_fields.hpp"

namespace cohort {
namespace {

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
