#include "sim/result/decision_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

template <class T>
T number(std::string_view text) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) {
        fail<FileError>({.where = "decisions",
                         .what = "a list is damaged",
                         .expected = "a number",
                         .got = fmt::format("'{}'", text)});
    }
    return value;
}

}  // namespace

std::string text_of_workers(const std::vector<int>& workers) {
    return fmt::format("{}", fmt::join(workers, " "));
}

std::vector<int> workers_of_text(const std::string& text) {
    std::vector<int> workers;
    for (const std::string_view part : split(text, ' ')) {
        workers.push_back(number<int>(part));
    }
    return workers;
}

std::string text_of_candidates(const std::vector<Candidate>& candidates) {
    std::string text;
    for (const Candidate& one : candidates) {
        text += fmt::format("{}{}|{}|{}|{}|{}", text.empty() ? "" : ";", one.plan, one.samples_s,
                            one.batch_efficiency, one.staleness_efficiency, one.rate);
    }
    return text;
}

std::vector<Candidate> candidates_of_text(const std::string& text) {
    constexpr std::size_t kFields = 5;
    std::vector<Candidate> candidates;
    for (const std::string_view part : split(text, ';')) {
        const std::vector<std::string_view> fields = split(part, '|');
        if (fields.size() != kFields) {
            fail<FileError>({.where = "decisions",
                             .what = "a candidate is damaged",
                             .expected = "plan and four numbers",
                             .got = fmt::format("'{}'", part)});
        }
        candidates.push_back({.plan = std::string(fields[0]),
                              .samples_s = number<double>(fields[1]),
                              .batch_efficiency = number<double>(fields[2]),
                              .staleness_efficiency = number<double>(fields[3]),
                              .rate = number<double>(fields[4])});
    }
    return candidates;
}

}  // namespace cohort
