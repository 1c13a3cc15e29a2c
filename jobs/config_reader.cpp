#include "config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"

namespace cohort {
namespace {

constexpr std::string_view kBlank = " \t\r";

/// Letters after a backslash and what they stand for.
constexpr std::array<std::pair<char, char>, 7> kEscapes{
    {{'"', '"'}, {'\\', '\\'}, {'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'b', '\b'}, {'f', '\f'}}};

/// Takes one line apart from left to right.
class LineReader {
public:
    LineReader(std::string_view line, std::string where) : rest_(line), where_(std::move(where)) {
        skip_blank();
    }

    [[nodiscard]] bool at_end() const { return rest_.empty() || rest_.front() == '#'; }

    /// Takes the character when it comes next, with the blanks behind it.
    bool take(char wanted) {
        if (rest_.empty() || rest_.front() != wanted) {
            return false;
        }
        rest_.remove_prefix(1);
        skip_blank();
        return true;
    }

    void expect(char wanted) {
        if (!take(wanted)) {
            refuse(fmt::format("'{}'", wanted));
        }
    }

    void expect_end() const {
        if (!at_end()) {
            refuse("nothing more on the line; texts with blanks stand in quotes");
        }
    }

    /// Characters up to a blank or one with a meaning of its own.
    std::string word() {
        const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t\r#=,[]\"'"));
        rest_.remove_prefix(word.size());
        skip_blank();
        return std::string(word);
    }

    /// The entries of a list, or one value. Errors: UsageError when one is empty.
    std::vector<std::string> values() {
        std::vector<std::string> found;
        if (!take('[')) {
            return {value()};
        }
        do {
            found.push_back(value());
        } while (take(',') && !(!rest_.empty() && rest_.front() == ']'));
        expect(']');
        return found;
    }

    void name_key(const std::string& key) { where_ += ", " + key; }
    [[nodiscard]] const std::string& where() const { return where_; }

private:
    void skip_blank() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlank), rest_.size()));
    }

    [[noreturn]] void refuse(const std::string& expected) const {
        fail<UsageError>({.where = where_,
                          .what = "the line cannot be understood",
                          .expected = expected,
                          .got = at_end() ? "nothing" : rest_});
    }

    std::string value() {
        std::string text = rest_.starts_with('"')    ? escaped_text()
                           : rest_.starts_with('\'') ? plain_text()
                                                     : bare();
        if (text.empty()) {
            fail<UsageError>({.where = where_,
                              .what = "the value is empty",
                              .hint = "leaving the line out for the default"});
        }
        skip_blank();
        return text;
    }

    /// Up to a blank, a comment, or what ends a list's entry.
    std::string bare() {
        const std::string_view text = rest_.substr(0, rest_.find_first_of(" \t\r#,[]\"'"));
        rest_.remove_prefix(text.size());
        return std::string(text);
    }

    std::string plain_text() {
        const std::size_t end = rest_.find('\'', 1);
        if (end == std::string_view::npos) {
            refuse("a closing '");
        }
        std::string text(rest_.substr(1, end - 1));
        rest_.remove_prefix(end + 1);
        return text;
    }

    std::string escaped_text() {
        std::string text;
        rest_.remove_prefix(1);
        while (!rest_.starts_with('"')) {
            if (rest_.empty()) {
                refuse("a closing \"");
            }
            text += rest_.starts_with('\\') ? escape() : rest_.front();
            rest_.remove_prefix(1);
        }
        rest_.remove_prefix(1);
        return text;
    }

    /// What an escape stands for; leaves its last character.
    char escape() {
        rest_.remove_prefix(1);
        const auto* found = std::find_if(kEscapes.begin(), kEscapes.end(), [&](const auto& entry) {
            return rest_.starts_with(entry.first);
        });
        if (found != kEscapes.end()) {
            return found->second;
        }
        unsigned code = 0;
        const bool four = rest_.starts_with('u') && rest_.size() > 4;
        const char* last = four ? rest_.data() + 5 : nullptr;
        if (!four || std::from_chars(rest_.data() + 1, last, code, 16).ptr != last || code >= 128) {
            refuse("after a backslash one of \" \\ n t r b f, or u and four digits below 0080");
        }
        rest_.remove_prefix(4);
        return static_cast<char>(code);
    }

    std::string_view rest_;
    std::string where_;
};

void check_new(const std::vector<ConfigEntry>& entries, const ConfigEntry& entry) {
    for (const ConfigEntry& earlier : entries) {
        if (earlier.key == entry.key) {
            fail<UsageError>({.where = entry.where,
                              .what = "the key comes twice",
                              .got = "first in " + earlier.where});
        }
    }
}

}  // namespace

std::vector<ConfigEntry> read_config(const std::string& path) {
    std::istringstream file(read_text_file(path));
    std::vector<ConfigEntry> entries;
    std::string section;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        LineReader reader(line, fmt::format("{}, line {}", path, number));
        if (reader.at_end()) {
            continue;
        }
        if (reader.take('[')) {
            section = reader.word();
            reader.expect(']');
        } else {
            ConfigEntry entry{.section = section, .key = reader.word(), .values = {}, .where = {}};
            reader.name_key(entry.key);
            reader.expect('=');
            entry.values = reader.values();
            entry.where = reader.where();
            check_new(entries, entry);
            entries.push_back(std::move(entry));
        }
        reader.expect_end();
    }
    return entries;
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto* found = std::find_if(kEscapes.begin(), kEscapes.end(),
                                         [c](const auto& entry) { return entry.second == c; });
        if (found != kEscapes.end()) {
            result += {'\\', found->first};
        } else if ((c >= 0 && c < ' ') || c == '\x7f') {
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + '"';
}

}  // namespace cohort
