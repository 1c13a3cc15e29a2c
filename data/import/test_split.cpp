// Quotas by largest remainders (Hamilton's method), samples by selection sampling (Knuth, The Art
// of Computer Programming 2, 3.4.2, algorithm S).
#include "data/import/test_split.hpp"

#include "cohort/core/rng.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cohort {

void TestSplit::count(std::span<const std::int32_t> labels) {
    for (const std::int32_t label : labels) {
        ++classes_[label].samples;
    }
    samples_ += static_cast<std::int64_t>(labels.size());
}

void TestSplit::count_unlabelled(std::int64_t samples) {
    classes_[kNoClass].samples += samples;
    samples_ += samples;
}

void TestSplit::draw(double fraction, std::uint64_t seed) {
    seed_ = seed;
    const auto all = static_cast<double>(samples_);
    const auto wanted = std::clamp<std::int64_t>(std::llround(fraction * all), 1, samples_ - 1);
    struct Remainder {
        double share;
        Class* of;
    };
    std::vector<Remainder> remainders;
    std::int64_t missing = wanted;
    for (auto& [label, each] : classes_) {
        const double quota = static_cast<double>(wanted) / all * static_cast<double>(each.samples);
        each.left = each.samples;
        each.test = std::min(static_cast<std::int64_t>(quota), each.samples - 1);
        missing -= each.test;
        remainders.push_back({quota - static_cast<double>(each.test), &each});
    }
    std::ranges::stable_sort(remainders, std::ranges::greater(), &Remainder::share);
    for (const std::int64_t kept : {1, 0}) {  // none where no class has more than one left
        for (bool moved = true; missing > 0 && moved;) {
            moved = false;
            for (auto at = remainders.begin(); missing > 0 && at != remainders.end(); ++at) {
                if (at->of->test + kept < at->of->samples) {
                    ++at->of->test;
                    --missing;
                    moved = true;
                }
            }
        }
    }
}

bool TestSplit::goes_to_test(std::int32_t label) {
    Class& own = classes_[label];
    Rng rng(seed_, RngPurpose::kTestSplit, passed_++);
    const bool test =
        own.left > 0 && rng.next_below(static_cast<std::uint32_t>(own.left)) < own.test;
    own.left -= 1;
    own.test -= test ? 1 : 0;
    return test;
}

}  // namespace cohort
