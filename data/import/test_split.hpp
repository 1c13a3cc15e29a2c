#pragma once

#include <cstdint>
#include <map>
#include <span>

namespace cohort {

/// Which samples become the test group: exactly a share of all of them and, to less than one sample
/// where it can be, of each class; drawn. Samples pass by twice, to be counted and to be told
/// apart, so none are kept.
class TestSplit {
public:
    /// The class of samples that have targets.
    static constexpr std::int32_t kNoClass = -1;

    void count(std::span<const std::int32_t> labels);
    void count_unlabelled(std::int64_t samples);
    /// Settles how many of each class go to test: of n samples round(fraction n), at least 1 and
    /// less than n; each class keeps a train sample where that is possible. Needs two samples.
    void draw(double fraction, std::uint64_t seed);
    /// Of the next sample. Within a class every choice of samples is equally likely.
    [[nodiscard]] bool goes_to_test(std::int32_t label);
    [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }

private:
    struct Class {
        std::int64_t samples = 0;
        std::int64_t left = 0;  ///< samples that have not passed by yet
        std::int64_t test = 0;  ///< of them, those that go to test
    };

    std::map<std::int32_t, Class> classes_;
    std::int64_t samples_ = 0;
    std::uint64_t seed_ = 0;
    std::uint64_t passed_ = 0;  ///< the draw's key
};

}  // namespace cohort
