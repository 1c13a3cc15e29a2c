#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// Slowness put into one rank on purpose, for tests and demonstrations.
struct Injection {
    int rank = 0;                ///< in the world
    double cpu = 1;              ///< the rank computes at this share of its speed, 0 < cpu <= 1
    double from_s = 0;           ///< since training began
    std::optional<double> to_s;  ///< none: to the end

    friend bool operator==(const Injection&, const Injection&) = default;
};

/// Parses `--inject`: entries separated by ';', each "rank=R,cpu=F[,from=Ts][,to=Ts]", e.g.
/// "rank=3,cpu=0.3,from=10s,to=40s". Empty text: none. Errors: UsageError with the grammar.
[[nodiscard]] std::vector<Injection> parse_injections(const std::string& text);

}  // namespace cohort
