#include "train/protocol/push_outcomes.hpp"

#include <limits>

namespace cohort {
namespace {

constexpr std::uint64_t kOutcomes = std::numeric_limits<std::uint64_t>::digits;

}  // namespace

void PushOutcomes::note(const PushId& push, bool is_applied) noexcept {
    if (push.incarnation < incarnation) {
        return;
    }
    if (push.incarnation > incarnation) {
        *this = {.incarnation = push.incarnation};
    }
    if (push.sequence > newest) {
        const std::uint64_t by = push.sequence - newest;
        decided = by < kOutcomes ? decided << by : 0;
        applied = by < kOutcomes ? applied << by : 0;
        newest = push.sequence;
    }
    if (const std::uint64_t age = newest - push.sequence; age < kOutcomes) {
        decided |= std::uint64_t{1} << age;
        applied |= std::uint64_t{is_applied ? 1U : 0U} << age;
    }
}

PushOutcomes::Outcome PushOutcomes::of(std::uint64_t sequence) const noexcept {
    if (sequence > newest) {
        return Outcome::kOpen;
    }
    const std::uint64_t age = newest - sequence;
    if (age >= kOutcomes) {
        return Outcome::kNotUsed;
    }
    if ((decided >> age & 1U) == 0) {
        return Outcome::kOpen;
    }
    return (applied >> age & 1U) != 0 ? Outcome::kApplied : Outcome::kNotUsed;
}

}  // namespace cohort
