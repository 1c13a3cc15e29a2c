#include "train/worker/servers/error_feedback.hpp"

#include <algorithm>
#include <utility>

#include "layers/optim/vector_math.hpp"

namespace cohort {

std::vector<float> ErrorFeedback::spare() {
    if (spare_.empty()) {
        return std::vector<float>(floats_);
    }
    std::vector<float> one = std::move(spare_.back());
    spare_.pop_back();
    return one;
}

ErrorFeedback::Push& ErrorFeedback::begin(std::uint64_t sequence, Work work) {
    std::vector<float> before = std::exchange(kept_[static_cast<std::size_t>(work)], {});
    if (before.empty()) {
        before = spare();
        std::ranges::fill(before, 0.0F);
    }
    return open_.emplace_back(Push{sequence, work, std::move(before), spare()});
}

void ErrorFeedback::decide(std::uint64_t sequence, bool applied) {
    const auto found = std::ranges::find(open_, sequence, &Push::sequence);
    if (found == open_.end()) {
        return;
    }
    std::vector<float>& rest = applied ? found->after : found->before;
    std::vector<float>& kept = kept_[static_cast<std::size_t>(found->work)];
    if (kept.empty()) {
        kept = std::move(rest);
    } else {  // of another push, which was decided while this one was open
        add_scaled(kept, rest, 1);
        spare_.push_back(std::move(rest));
    }
    spare_.push_back(std::move(applied ? found->before : found->after));
    open_.erase(found);
}

void ErrorFeedback::decide(const PushOutcomes& outcomes) {
    for (auto next = open_.begin(); next != open_.end();) {
        const std::uint64_t sequence = (next++)->sequence;
        if (const auto outcome = outcomes.of(sequence); outcome != PushOutcomes::Outcome::kOpen) {
            decide(sequence, outcome == PushOutcomes::Outcome::kApplied);
        }
    }
}

void ErrorFeedback::clear() {
    kept_ = {};
    open_.clear();
}

}  // namespace cohort
