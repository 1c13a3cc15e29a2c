#include "comm/world/members.hpp"

namespace cohort {

void Members::open(int ranks) {
    excluded_ = std::vector<std::atomic<bool>>(index(ranks));
    lost_at_ = std::vector<std::atomic<std::uint64_t>>(index(ranks));
}

std::optional<int> Members::lost_since(const std::vector<int>& ranks, std::uint64_t epoch) const {
    for (const int rank : ranks) {
        if (excluded(rank) || lost_at(rank) > epoch) {
            return rank;
        }
    }
    return std::nullopt;
}

std::optional<MembershipState> Members::change(int rank, bool excluded) {
    const std::lock_guard lock(mutex_);
    if (excluded_[index(rank)].load() == excluded) {
        return std::nullopt;
    }
    const std::uint64_t epoch = epoch_.load() + 1;
    if (excluded) {
        lost_at_[index(rank)].store(epoch);
    }
    excluded_[index(rank)].store(excluded);
    epoch_.store(epoch);
    MembershipState state{.epoch = epoch, .excluded = {}, .lost_at = {}};
    for (std::size_t i = 0; i < excluded_.size(); ++i) {
        state.excluded.push_back(excluded_[i].load() ? 1 : 0);
        state.lost_at.push_back(lost_at_[i].load());
    }
    return state;
}

void Members::apply(const MembershipState& state) {
    const std::lock_guard lock(mutex_);
    if (state.epoch <= epoch_.load()) {
        return;  // overtaken
    }
    for (std::size_t i = 0; i < excluded_.size(); ++i) {
        lost_at_[i].store(state.lost_at.at(i));
        excluded_[i].store(state.excluded.at(i) != 0);
    }
    epoch_.store(state.epoch);
}

}  // namespace cohort
