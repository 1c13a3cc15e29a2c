#include "cohort/optim/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr double kMostFactor = 1000;
/// Factors above 1 would make it infinite in time.
constexpr double kMostRate = 1e100;

[[noreturn]] void fail_text(std::string_view text, std::string_view what) {
    fail<UsageError>({.where = "learning rate schedule",
                      .what = what,
                      .expected = "constant, step:FACTOR@N1,N2,..., step:FACTOR@every:N, "
                                  "cosine:FLOOR or cosine:FLOOR@N, each optionally followed by "
                                  "+warmup:N (counts in samples)",
                      .got = fmt::format("'{}'", text)});
}

/// Removes `prefix` from the front of `text`. @return whether it was there
bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) {
        return false;
    }
    text.remove_prefix(prefix.size());
    return true;
}

/// The whole of `part` as a number, or the error for `text`.
template <class T>
T parse_number(std::string_view part, std::string_view text, std::string_view what) {
    T value{};
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size()) {
        fail_text(text, what);
    }
    return value;
}

std::int64_t parse_count(std::string_view part, std::string_view text) {
    const auto value = parse_number<std::int64_t>(part, text, "not a count of samples");
    if (value < 1) {
        fail_text(text, "a count of samples below 1");
    }
    return value;
}

double parse_share(std::string_view part, std::string_view text, std::string_view what) {
    const auto value = parse_number<double>(part, text, what);
    if (!(value >= 0 && value <= 1)) {
        fail_text(text, what);
    }
    return value;
}

std::vector<std::int64_t> parse_counts(std::string_view part, std::string_view text) {
    std::vector<std::int64_t> counts;
    while (true) {
        const std::size_t comma = part.find(',');
        counts.push_back(parse_count(part.substr(0, comma), text));
        if (comma == std::string_view::npos) {
            break;
        }
        part.remove_prefix(comma + 1);
    }
    if (std::adjacent_find(counts.begin(), counts.end(), std::greater_equal<>()) != counts.end()) {
        fail_text(text, "counts that do not increase");
    }
    return counts;
}

}  // namespace

Schedule Schedule::parse(std::string_view text) {
    Schedule result;
    std::string_view body = text;
    if (const std::size_t plus = text.find("+warmup:"); plus != std::string_view::npos) {
        result.warmup_ = parse_count(text.substr(plus + 8), text);
        body = text.substr(0, plus);
    }
    const std::size_t at = body.find('@');
    const std::string_view tail = at == std::string_view::npos ? "" : body.substr(at + 1);
    std::string_view head = body.substr(0, at);
    if (body == "constant") {
        return result;
    }
    if (take_prefix(head, "step:")) {
        result.kind_ = ScheduleKind::kStep;
        result.factor_ = parse_number<double>(head, text, "not a factor");
        if (!(result.factor_ > 0) || result.factor_ > kMostFactor) {
            fail_text(text, fmt::format("a factor that is not above 0, at most {}", kMostFactor));
        }
        std::string_view places = tail;
        if (take_prefix(places, "every:")) {
            result.every_ = parse_count(places, text);
        } else {
            result.at_ = parse_counts(places, text);
        }
        return result;
    }
    if (take_prefix(head, "cosine:")) {
        result.kind_ = ScheduleKind::kCosine;
        result.floor_ = parse_share(head, text, "a floor that is not within 0..1");
        return at == std::string_view::npos ? result : result.with_end(parse_count(tail, text));
    }
    fail_text(text, "unknown schedule");
}

std::string Schedule::to_text() const {
    std::string text = "constant";
    if (kind_ == ScheduleKind::kStep) {
        text = every_ > 0 ? fmt::format("step:{}@every:{}", factor_, every_)
                          : fmt::format("step:{}@{}", factor_, fmt::join(at_, ","));
    } else if (kind_ == ScheduleKind::kCosine) {
        text = fmt::format("cosine:{}", floor_);
        text += end_ > 0 ? fmt::format("@{}", end_) : "";
    }
    return warmup_ > 0 ? fmt::format("{}+warmup:{}", text, warmup_) : text;
}

Schedule Schedule::with_end(std::int64_t samples) const {
    if (!needs_end()) {
        return *this;
    }
    if (samples <= warmup_) {
        fail<UsageError>({.where = "learning rate schedule",
                          .what = "the cosine ends within the warm-up",
                          .expected = fmt::format("an end after {} samples", warmup_),
                          .got = fmt::format("{}", samples)});
    }
    Schedule result = *this;
    result.end_ = samples;
    return result;
}

double Schedule::shape(std::int64_t samples) const {
    switch (kind_) {
        case ScheduleKind::kConstant: return 1;
        case ScheduleKind::kStep: {
            const auto steps =
                every_ > 0 ? samples / every_
                           : std::upper_bound(at_.begin(), at_.end(), samples) - at_.begin();
            return std::pow(factor_, static_cast<double>(steps));
        }
        case ScheduleKind::kCosine: {
            const double progress =
                static_cast<double>(samples - warmup_) / static_cast<double>(end_ - warmup_);
            const double angle = std::numbers::pi * std::clamp(progress, 0.0, 1.0);
            return floor_ + (1 - floor_) * 0.5 * (1 + std::cos(angle));
        }
    }
    return 1;
}

double Schedule::lr(double base_lr, std::int64_t samples_applied) const {
    if (needs_end()) {
        fail<UsageError>({.where = "learning rate schedule",
                          .what = "the cosine has no end",
                          .expected = "cosine:FLOOR@N, or a run with a sample budget",
                          .got = to_text()});
    }
    const double warm = samples_applied < warmup_
                            ? static_cast<double>(samples_applied) / static_cast<double>(warmup_)
                            : 1.0;
    return std::min(base_lr * warm * shape(samples_applied), kMostRate);
}

}  // namespace cohort
