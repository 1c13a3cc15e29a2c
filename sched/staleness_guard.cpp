#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/sched/efficiency.hpp"

namespace cohort {
namespace {

constexpr double kStale = 0.15;     ///< reference batches: below, nothing is blamed on the lag
constexpr double kHigh = 0.10;      ///< share of the best loss by which a block is far above it
constexpr double kDeviations = 4;   ///< and so many times the noise
constexpr double kNoiseRate = 0.1;  ///< weight of the newest block in the noise
constexpr double kFlat = 0.2;       ///< share of the fall to be expected that is next to nothing
constexpr double kChance = 6;       ///< times the noise: falls that are no chance
constexpr std::size_t kBlocks = StalenessGuard::kWindow;
constexpr double kBelow = 0.9;  ///< the limit, as a share of the lag that did harm

template <class Blocks, class Get>
double mean(const Blocks& blocks, std::size_t begin, std::size_t end, const Get& get) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
        sum += get(blocks[i]);
    }
    return sum / static_cast<double>(end - begin);
}

}  // namespace

void StalenessGuard::add(double loss, std::int64_t samples, double lag) {
    if (!std::isfinite(loss)) {
        blame("the training loss is not finite", lag);
        return;
    }
    const auto count = static_cast<double>(samples);
    sum_.loss += loss * count;
    sum_.lag += lag * count;
    samples_ += count;
    if (samples_ >= kBlock * reference_batch_) {
        judge({.loss = sum_.loss / samples_, .lag = sum_.lag / samples_});
        sum_ = {};
        samples_ = 0;
    }
}

void StalenessGuard::judge(const Block& block) {
    ++seen_;
    const bool high =
        seen_ > kRising && block.loss > best_ + std::max(kHigh * best_, kDeviations * noise_);
    blocks_.push_back(block);
    if (seen_ > 2 && !high) {  // a jump is not noise
        const Block* last = &blocks_.back();
        const double bend = std::abs(last[0].loss - 2 * last[-1].loss + last[-2].loss);
        noise_ += std::max(kNoiseRate, 1.0 / (seen_ - 2)) * (bend / std::sqrt(3.0) - noise_);
    }
    if (blocks_.size() > 2 * kBlocks) {
        blocks_.erase(blocks_.begin());
    }
    if (seen_ < kRising) {
        return;
    }
    const auto loss = [](const Block& one) { return one.loss; };
    const double newest = mean(blocks_, blocks_.size() - kRising, blocks_.size(), loss);
    best_ = seen_ == kRising ? newest : std::min(best_, newest);
    high_ = high ? high_ + 1 : 0;
    if (high_ >= kRising) {
        blame(fmt::format("the training loss has risen from {:.3f} to {:.3f}", best_, block.loss),
              mean(blocks_, blocks_.size() - kRising, blocks_.size(),
                   [](const Block& one) { return one.lag; }));
    } else if (flat()) {
        blame(fmt::format("the training loss no longer falls: {:.3f}, it was {:.3f}", block.loss,
                          best_),
              block.lag);
    }
}

/// The window before fell under a fresher plan, by more than chance, and would have gone on falling
/// by more than chance; this one does not. A loss slows down by itself: what is to be expected goes
/// on as the geometric sequence of the two falls between the thirds of the window before, which is
/// less than losses that fall like a power go on to fall.
bool StalenessGuard::flat() const {
    constexpr std::size_t kThird = kBlocks / 3;
    if (blocks_.size() < 2 * kBlocks) {
        return false;
    }
    const auto lag = [](const Block& one) { return one.lag; };
    if (mean(blocks_, 0, kBlocks, lag) >= 0.5 * mean(blocks_, kBlocks, 2 * kBlocks, lag)) {
        return false;
    }
    const auto third = [&](std::size_t at) {
        return mean(blocks_, at * kThird, (at + 1) * kThird,
                    [](const Block& one) { return one.loss; });
    };
    const double first = third(0) - third(1);
    const double second = third(1) - third(2);
    const double chance = kChance * noise_;
    if (!(second > 0) || !(first + second > chance)) {
        return false;
    }
    const double ratio = first > second ? second / first : 1;
    const double expected = second * ratio * ratio * (1 + ratio);  // from third 3 to third 5
    const double fall = third(3) - third(5);
    return expected > chance && fall < kFlat * expected && expected - fall > chance;
}

/// A fresher plan begins anew: what was best before is no measure while it mends the harm.
void StalenessGuard::blame(const std::string& what, double lag) {
    seen_ = 0;
    high_ = 0;
    noise_ = 0;
    blocks_.clear();
    if (lag >= kStale && kBelow * lag < limit_) {
        limit_ = kBelow * lag;
        reason_ = fmt::format("{} at a mean lag of {:.2f} reference batches", what, lag);
    }
}

std::string StalenessGuard::take_reason() {
    return std::exchange(reason_, {});
}

}  // namespace cohort
