#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cohort {

// Reading files of comma-separated values with a header; lines that begin with '#' and empty ones
// are left out.

/// Without blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);
/// Between the commas, trimmed.
[[nodiscard]] std::vector<std::string_view> fields_of(std::string_view line);

/// Where an error is.
struct CsvPlace {
    const std::string& path;
    int line = 0;
    [[nodiscard]] std::string text(std::string_view field = "") const;
};

/// All of the text, and nothing else, as a number. @param base  of integers; without it: 10
template <class T, class... Base>
[[nodiscard]] std::optional<T> parsed(std::string_view text, Base... base) {
    T number{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number, base...);
    return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

/// Calls use(place, line) for each line that counts. @param path  for messages
template <class Use>
void each_csv_line(const std::string& path, std::string_view text, const Use& use) {
    CsvPlace place{.path = path};
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        ++place.line;
        if (!line.empty() && line.front() != '#') {
            use(place, line);
        }
    }
}

/// Errors: FileError naming the place and the field `got` that is no `expected`, unless `good`.
void require_csv(bool good, const CsvPlace& place, std::string_view field,
                 std::string_view expected, std::string_view got);

/// The fields of a line, as many as there are columns. Errors: FileError.
[[nodiscard]] std::vector<std::string_view> fields_of(const CsvPlace& place, std::size_t columns,
                                                      std::string_view line);

}  // namespace cohort
