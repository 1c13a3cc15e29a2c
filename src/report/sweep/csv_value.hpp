#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace cohort {

/// A value in CSV: nine digits, quotes where they are needed.
struct CsvText {
    std::string operator()(const std::string& text) const {
        if (text.find_first_of(",\"\n\r") == std::string::npos) {
            return text;
        }
        std::string quoted = "\"";
        for (const char c : text) {
            quoted += c == '"' ? "\"\"" : std::string(1, c);
        }
        return quoted + '"';
    }
    std::string operator()(double number) const {
        return std::isnan(number) ? std::string() : fmt::format("{:.9g}", number);
    }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(std::uint64_t hash) const { return fmt::format("{:016x}", hash); }
};

}  // namespace cohort
