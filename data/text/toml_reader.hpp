#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

[[nodiscard]] bool one_of(std::string_view key, std::initializer_list<std::string_view> keys);

/// A scalar as the command line writes it; none for anything else.
[[nodiscard]] std::optional<std::string> text_of(const toml::node& node);

/// Puts "TABLE.KEY=VALUE" in place of what the file says; a value that is no TOML is a text.
/// @param tables  names that TABLE may have  Errors: UsageError.
void put_override(toml::table& file, const std::string& text,
                  std::span<const std::string_view> tables);

/// A TOML file whose values have kinds; errors name file, line and key.
class TomlReader {
public:
    /// What a file is that is wrong: something the user wrote for this program, UsageError, or
    /// data, FileError.
    enum class Kind : std::uint8_t { kOptions, kData };

    explicit TomlReader(std::string path, Kind kind = Kind::kOptions)
        : path_(std::move(path)), kind_(kind) {}

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// Errors: FileError for a file that cannot be read; by kind for text that is not TOML.
    [[nodiscard]] toml::table parse() const;
    [[nodiscard]] toml::table parse(std::string_view text) const;

    /// "e.toml, line 3, lr", of the file that the node is from, or "--set defaults.lr".
    /// @param key  empty: without it
    [[nodiscard]] std::string where(const toml::node& node, std::string_view key) const;
    [[noreturn]] void refuse(const toml::node& node, std::string_view key, std::string_view what,
                             std::string_view expected, std::string_view got = "") const;

    // Errors of all: by kind for a value of another kind.
    [[nodiscard]] const toml::table& table(const toml::node& node, std::string_view key) const;
    /// The tables of [[key]]; none when there are none.
    [[nodiscard]] std::vector<const toml::table*> tables(const toml::table& file,
                                                         std::string_view key) const;
    /// One line, not empty.
    [[nodiscard]] std::string string(const toml::node& node, std::string_view key) const;
    [[nodiscard]] bool truth(const toml::node& node, std::string_view key) const;
    /// A number, or a list of at least one; 0 or more, none twice.
    template <class T>
    [[nodiscard]] std::vector<T> numbers(const toml::node& node, std::string_view key) const {
        std::vector<T> found;
        const auto add = [&](const toml::node& entry) {
            const std::optional<T> number = entry.value<T>();
            if (!number || !entry.is_number() || std::signbit(static_cast<double>(*number))) {
                refuse(entry, key, "not a number that can be used here", "0 or more",
                       text_of(entry).value_or("another kind of value"));
            }
            if (std::ranges::find(found, *number) != found.end()) {
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

private:
    std::string path_;
    Kind kind_;
};

}  // namespace cohort
