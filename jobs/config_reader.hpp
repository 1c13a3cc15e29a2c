#pragma once

#include <string>
#include <vector>

namespace cohort {

/// One `key = value` line of a config file.
struct ConfigEntry {
    std::string section;              ///< empty at the top of the file
    std::string key;                  ///< long option name
    std::vector<std::string> values;  ///< one, or the entries of a list; none of them empty
    std::string where;                ///< file, line and key, for messages
};

/// Reads the part of TOML that options need: `[section]`, `key = value`, `# comment`; a value is
/// a "text" with escapes, a 'text' without, a bare word or number, or a list of these in brackets,
/// on one line. Errors: FileError when the file cannot be read; UsageError naming file, line and
/// key for anything else, for an empty value and for a key that comes twice.
[[nodiscard]] std::vector<ConfigEntry> read_config(const std::string& path);

/// "text" with what must be escaped in it escaped.
[[nodiscard]] std::string quoted(const std::string& text);

}  // namespace cohort
