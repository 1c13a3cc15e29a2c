#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/sched/efficiency.hpp"

namespace cohort {
namespace {

constexpr double kStale = 0.15;     ///< reference batches: below, nothing is blamed on the lag
constexpr double kHigh = 0.10;      ///< share of the best loss by which a block is far above it
constexpr double kDeviations = 4;   ///< and so many mean differences between blocks
constexpr double kNoiseRate = 0.1;  ///< weight of the newest difference
constexpr double kFlat = 0.1;       ///< share of the fall before that is next to nothing
constexpr double kBelow = 0.9;      ///< the limit, as a share of the lag that did harm

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
    if (seen_ > 1 && !high) {  // a jump is not noise
        const double step = std::abs(block.loss - blocks_.back().loss);
        noise_ += std::max(kNoiseRate, 1.0 / (seen_ - 1)) * (step - noise_);
    }
    blocks_.push_back(block);
    if (blocks_.size() > 2 * kWindow) {
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

/// The window before fell under a fresher plan, by more than chance; this one does not.
bool StalenessGuard::flat() const {
    constexpr std::size_t kHalf = kWindow / 2;
    if (blocks_.size() < 2 * kWindow) {
        return false;
    }
    const auto loss = [](const Block& one) { return one.loss; };
    const auto lag = [](const Block& one) { return one.lag; };
    const auto fall = [&](std::size_t from) {
        return mean(blocks_, from, from + kHalf, loss) -
               mean(blocks_, from + kHalf, from + kWindow, loss);
    };
    const double before = fall(0);
    const bool fresher =
        mean(blocks_, 0, kWindow, lag) < 0.5 * mean(blocks_, kWindow, 2 * kWindow, lag);
    const bool sure = before > kDeviations * noise_ / std::sqrt(static_cast<double>(kHalf));
    return fresher && sure && fall(kWindow) < kFlat * before;
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
