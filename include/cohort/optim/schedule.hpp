#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

enum class ScheduleKind { kConstant, kStep, kCosine };

/// The learning rate as a pure function of the samples applied so far, relative to a base rate.
///
/// Text form (all counts in samples):
///   constant
///   step:FACTOR@N1,N2,...      times FACTOR when N1, N2, ... samples are applied
///   step:FACTOR@every:N        times FACTOR every N samples
///   cosine:FLOOR               half a cosine from 1 to FLOOR (a share of the base rate, 0..1),
///                              ending with the run's sample budget
///   cosine:FLOOR@N             ... ending at N samples
/// each optionally followed by `+warmup:N`: times s/N for the first N samples. The cosine starts
/// where the warm-up ends.
class Schedule {
public:
    /// The constant schedule.
    Schedule() = default;

    /// Errors: UsageError with the grammar.
    [[nodiscard]] static Schedule parse(std::string_view text);
    /// parse(to_text()) is the same schedule.
    [[nodiscard]] std::string to_text() const;

    /// True for a cosine that does not say where it ends; lr() then needs with_end() first.
    [[nodiscard]] bool needs_end() const noexcept {
        return kind_ == ScheduleKind::kCosine && end_ == 0;
    }
    /// This schedule, ending at `samples` where it needs an end; otherwise unchanged.
    /// Errors: UsageError when the end is not after the warm-up.
    [[nodiscard]] Schedule with_end(std::int64_t samples) const;

    /// Learning rate for the next update. Errors: UsageError when needs_end().
    [[nodiscard]] double lr(double base_lr, std::int64_t samples_applied) const;

    friend bool operator==(const Schedule&, const Schedule&) = default;

private:
    [[nodiscard]] double shape(std::int64_t samples) const;

    ScheduleKind kind_ = ScheduleKind::kConstant;
    double factor_ = 1;             // step
    std::vector<std::int64_t> at_;  // step at a list, increasing
    std::int64_t every_ = 0;        // step every n
    double floor_ = 0;              // cosine
    std::int64_t end_ = 0;          // cosine; 0: not said
    std::int64_t warmup_ = 0;
};

}  // namespace cohort
