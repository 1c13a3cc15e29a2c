#pragma once

#include <string>
#include <vector>

namespace cohort {

/// One `key = value` of a TOML file.
struct TomlEntry {
    std::string section;  ///< empty at the top of the file
    std::string key;
    std::vector<std::string> values;  ///< one, or those of a list; as the command line writes them
    std::string where;                ///< file, line and key, for messages

    [[nodiscard]] std::string full_key() const {
        return section.empty() ? key : section + "." + key;
    }
};

/// All entries of a file with texts, numbers, booleans and lists of these, at its top and in its
/// tables. Errors: FileError when the file cannot be read; UsageError naming file, line and key for
/// text that is not TOML, and for values of another kind or without content.
[[nodiscard]] std::vector<TomlEntry> read_toml_entries(const std::string& path);

}  // namespace cohort
