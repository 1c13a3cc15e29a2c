#include "report/sweep/experiment_base.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "formats/toml_reader.hpp"

namespace cohort {
namespace {

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

toml::table read(const std::string& path, std::vector<std::filesystem::path>& seen) {
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
    if (std::find(seen.begin(), seen.end(), std::filesystem::weakly_canonical(base, ignored)) !=
        seen.end()) {
        reader.refuse(*key, "base", "files that are based on each other",
                      "one that is not based on this one", base.string());
    }
    own.erase("base");
    toml::table merged = read(base.string(), seen);
    for (auto&& [name, node] : own) {
        put_on(merged, name.str(), node);
    }
    return merged;
}

}  // namespace

toml::table read_with_base(const std::string& path) {
    std::vector<std::filesystem::path> seen;
    return read(path, seen);
}

}  // namespace cohort
