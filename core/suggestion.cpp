#include "core/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace cohort {
namespace {

/// Optimal string alignment distance, by rows of the usual table: O(|a| |b|).
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::array<std::vector<std::size_t>, 3> rows;  // of i - 2, i - 1 and i
    rows.fill(std::vector<std::size_t>(b.size() + 1));
    auto& [before, last, row] = rows;
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

std::string closest_word(std::string_view text, std::span<const std::string> words) {
    std::size_t least = (text.size() + 2) / 3 + 1;
    std::string closest;
    for (const std::string& word : words) {
        // Texts of such a difference in length are further apart than that.
        const auto [shorter, longer] = std::minmax({text.size(), word.size()});
        if (longer - shorter >= least) {
            continue;
        }
        if (const std::size_t distance = edit_distance(text, word); distance < least) {
            least = distance;
            closest = word;
        }
    }
    return closest;
}

std::string quoted_with_guess(std::string_view text, std::span<const std::string> words) {
    const std::string guess = closest_word(text, words);
    return guess.empty() ? fmt::format("'{}'", text)
                         : fmt::format("'{}' (did you mean '{}'?)", text, guess);
}

}  // namespace cohort
