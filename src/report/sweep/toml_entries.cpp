#include "report/sweep/toml_entries.hpp"

#include <algorithm>

#include "report/sweep/toml_reader.hpp"

namespace cohort {
namespace {

class EntryReader : TomlReader {
public:
    explicit EntryReader(const std::string& path) : TomlReader(path) {}

    std::vector<TomlEntry> read() {
        const toml::table file = parse();
        for (const auto& [name, node] : file) {
            if (const toml::table* section = node.as_table()) {
                for (const auto& [key, value] : *section) {
                    add(std::string(name.str()), std::string(key.str()), value);
                }
            } else {
                add("", std::string(name.str()), node);
            }
        }
        return std::move(entries_);
    }

private:
    void add(std::string section, std::string key, const toml::node& node) {
        TomlEntry entry{
            .section = std::move(section), .key = std::move(key), .values = {}, .where = {}};
        const std::string full = entry.full_key();
        entry.where = where(node, full);
        if (const toml::array* list = node.as_array()) {
            for (const toml::node& each : *list) {
                entry.values.push_back(text(each, full));
            }
        } else {
            entry.values.push_back(text(node, full));
        }
        if (entry.values.empty() ||
            std::any_of(entry.values.begin(), entry.values.end(),
                        [](const std::string& value) { return value.empty(); })) {
            refuse(node, full, "the value is empty", "a value, or no such line for the default",
                   "nothing");
        }
        entries_.push_back(std::move(entry));
    }

    [[nodiscard]] std::string text(const toml::node& node, const std::string& full) const {
        const std::optional<std::string> value = text_of(node);
        if (!value) {
            refuse(node, full, "not a value of an option",
                   "a text in quotes, a number, true, false, or a list of these",
                   "another kind of value");
        }
        return *value;
    }

    std::vector<TomlEntry> entries_;
};

}  // namespace

std::vector<TomlEntry> read_toml_entries(const std::string& path) {
    return EntryReader(path).read();
}

}  // namespace cohort
