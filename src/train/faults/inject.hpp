#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// A fault put into one rank on purpose, for tests and demonstrations. Times are seconds since the
/// begin of training. Fields that are not set have no effect.
struct Injection {
    int rank = 0;                  ///< in the world
    double cpu = 1;                ///< the rank computes at this share of its speed, 0 < cpu <= 1
    double bytes_per_second = 0;   ///< it sends, and it receives, at most this much; 0: no limit
    double delay_s = 0;            ///< added to a mini-batch
    double probability = 1;        ///< ... to each with this probability
    double sample_s = 0;           ///< added to each sample of a mini-batch
    std::optional<double> kill_s;  ///< time at which the rank kills itself
    std::optional<double> freeze_from_s;  ///< begin of standing still
    double freeze_to_s = 0;               ///< end of standing still
    double from_s = 0;                    ///< begin of the faults other than kill and freeze
    std::optional<double> to_s;           ///< end of these faults; none: the end of the run
    /// Whether the faults other than kill and freeze are active at a time.
    [[nodiscard]] bool holds(double seconds) const noexcept {
        return seconds >= from_s && (!to_s || seconds < *to_s);
    }
    friend bool operator==(const Injection&, const Injection&) = default;
};

/// Parses `--inject`: entries separated by ';', each "rank=R" and at least one of "cpu=F",
/// "bw=20MB/s", "delay=50ms" (with "p=P"), "sample=2ms", "kill=12s", "freeze=5s..20s", with
/// "from=10s" and "to=40s" for the first four. Empty text: none. Errors: UsageError with the
/// grammar.
[[nodiscard]] std::vector<Injection> parse_injections(const std::string& text);

/// A duration with its unit, "40ms" or "1.5s", in seconds; none for any other text.
[[nodiscard]] std::optional<double> parse_duration(const std::string& text);

}  // namespace cohort
