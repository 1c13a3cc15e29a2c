#pragma once

#include <bit>
#include <cstdint>

namespace cohort {

/// A hash over all that happened in a run and when: two runs with the same one went the same way.
/// Each value is mixed in by the finaliser of splitmix64 (Steele et al. 2014).
class EventLog {
public:
    enum class Kind : std::uint8_t {
        kPush = 1,
        kFire,
        kRelease,
        kRefuse,
        kInterrupt,
        kReturn,
        kLease,
        kPlan,
        kEvaluation
    };

    template <class... Values>
    void add(Kind kind, double seconds, Values... values) noexcept {
        mix(static_cast<std::uint64_t>(kind));
        mix(seconds);
        (mix(values), ...);
    }
    void mix(double value) noexcept { mix(std::bit_cast<std::uint64_t>(value)); }
    void mix(std::int32_t value) noexcept { mix(static_cast<std::uint64_t>(value)); }
    void mix(std::int64_t value) noexcept { mix(static_cast<std::uint64_t>(value)); }
    void mix(std::uint64_t value) noexcept {
        hash_ += value + 0x9E3779B97F4A7C15U;
        hash_ = (hash_ ^ (hash_ >> 30U)) * 0xBF58476D1CE4E5B9U;
        hash_ = (hash_ ^ (hash_ >> 27U)) * 0x94D049BB133111EBU;
        hash_ ^= hash_ >> 31U;
    }
    [[nodiscard]] std::uint64_t digest() const noexcept { return hash_; }

private:
    std::uint64_t hash_ = 0;
};

}  // namespace cohort
