#include "switch_guard.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

constexpr double kLargeGain = 0.25;    ///< needs no second look
constexpr double kUnknownCost = 0.3;   ///< iterations
constexpr double kBatchCost = 0.1;     ///< iterations, of a change of batches alone
constexpr double kSure = 2;            ///< prices that an expected life must pay
constexpr double kFlickerGain = 3;     ///< times that a gain must be larger after bad changes
constexpr double kHalfLife = 600;      ///< iterations until half the patience is forgotten
constexpr double kLeastPatience = 16;  ///< iterations, after a bad change
constexpr double kMorePatience = 8;    ///< times
constexpr double kMostPatience = 512;  ///< iterations
constexpr double kLeastStay = 8;       ///< iterations that a good change lasts at least
constexpr double kThree = 18;          ///< iterations that three changes take at least

}  // namespace

double SwitchGuard::price_of(const Wish& wish) const {
    if (wish.same_plan) {
        return kBatchCost * iteration_s_;
    }
    return cost_s_ > 0 ? cost_s_ : kUnknownCost * iteration_s_;
}

bool SwitchGuard::worth(const Wish& wish) const noexcept {
    const double least = wish.fresher || wish.same_plan ? kFresherGain : kGain;
    return wish.gain > least * (flickers() ? kFlickerGain : 1) + wish.noise;
}

bool SwitchGuard::look(double now_s, double iteration_s, const Wish* wish) {
    const double passed_s = seen_s_ < 0 ? 0 : now_s - seen_s_;
    seen_s_ = now_s;
    iteration_s_ = iteration_s;
    patience_ *= std::exp2(-passed_s / (kHalfLife * iteration_s));
    if (wish == nullptr || !worth(*wish)) {
        wished_s_ = -1;
        rent_s_ *= std::exp2(-passed_s / iteration_s);
        return false;
    }
    const double saved = wish->gain / (1 + wish->gain);  // share of the time
    if (wished_s_ < 0) {
        wished_s_ = now_s - passed_s;  // what made it so took place since the last look
    }
    rent_s_ += passed_s * saved;
    const double lasted = (now_s - wished_s_) / iteration_s;
    const double needed = std::max(patience_, wish->gain < kLargeGain ? 2.0 : 0.0);
    const double price_s = price_of(*wish);
    const bool pays = rent_s_ >= price_s || wish->life_s * saved >= kSure * price_s;
    return lasted >= needed && pays;
}

void SwitchGuard::changed(double now_s, const Wish& wish) {
    const double stayed_s = now_s - changed_s_;
    const bool undone =
        wish.back && changed_s_ >= 0 &&
        (stayed_s * changed_gain_ < changed_price_s_ || stayed_s < kLeastStay * iteration_s_);
    const bool third = !wish.refines && before_s_ >= 0 && now_s - before_s_ < kThree * iteration_s_;
    if (undone || third) {
        patience_ = std::clamp(kMorePatience * patience_, kLeastPatience, kMostPatience);
    }
    begin(now_s, wish.refines);
    changed_gain_ = wish.gain / (1 + wish.gain);
    changed_price_s_ = price_of(wish);
}

void SwitchGuard::changed_anyway(double now_s) {
    begin(now_s, false);
    changed_gain_ = 1;
    changed_price_s_ = 0;
}

void SwitchGuard::returned() {
    changed_s_ = before_s_ = plan_s_ = -1;
    patience_ /= kMorePatience;
    wished_s_ = -1;
    rent_s_ = 0;
}

void SwitchGuard::flickered() {
    patience_ = std::max(patience_, kLeastPatience);
}

void SwitchGuard::begin(double now_s, bool refines) {
    changed_s_ = now_s;
    if (!refines) {
        before_s_ = std::exchange(plan_s_, now_s);
    }
    wished_s_ = -1;
    rent_s_ = 0;
}

void SwitchGuard::cost(double seconds) {
    constexpr double kWeight = 0.3;
    cost_s_ = cost_s_ == 0 ? seconds : cost_s_ + kWeight * (seconds - cost_s_);
}

}  // namespace cohort
