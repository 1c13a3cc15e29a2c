#include "comm/world/succession/succession.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

std::vector<int> Succession::left() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < ranks_; ++rank) {
        if (!gone_.contains(rank)) {
            ranks.push_back(rank);
        }
    }
    return ranks;
}

bool Succession::may_go_on() const {
    const std::vector<int> ranks = left();
    const bool half = ranks.size() == silent_.size();
    return ranks.size() > silent_.size() || (half && ranks.front() < *silent_.begin());
}

std::vector<int> Succession::missing() const {
    std::vector<int> ranks = left();
    std::erase_if(ranks, [this](int rank) {
        const auto told = told_.find(rank);
        return rank == own_ || (told != told_.end() && told->second == gone_);
    });
    return ranks;
}

void Succession::begin(const std::set<int>& gone, const std::string& reason, Instant now) {
    if (!active_) {
        active_ = true;
        reason_ = reason;
        learned_ = now;
        gone_ = gone;
        tell(false);
        decide_if_complete();
    }
}

void Succession::lost(int rank, Instant now) {
    if (active_ && !over() && !gone_.contains(rank)) {
        learn({rank}, {}, now);
    } else if (active_ && !over()) {
        silent_.erase(rank);  // it is known to have died now
    }
}

void Succession::learn(const std::set<int>& more, const std::set<int>& silent, Instant now) {
    for (const int rank : more) {
        if (gone_.insert(rank).second && silent.contains(rank)) {
            silent_.insert(rank);
        } else if (!silent.contains(rank)) {
            silent_.erase(rank);
        }
    }
    learned_ = now;
    tell(false);
    decide_if_complete();
}

void Succession::heard(int from, const SuccessionNote& note, Instant now) {
    if (over() || gone_.contains(from)) {
        return;
    }
    const std::set<int> gone(note.gone.begin(), note.gone.end());
    const std::set<int> silent(note.silent.begin(), note.silent.end());
    if (gone.contains(own_)) {
        left_out_ = true;
        return;
    }
    if (note.decided) {
        active_ = true;
        reason_ = note.reason;
        gone_ = gone;
        decision_ = left();
        return;
    }
    if (told_[from] != gone) {
        told_[from] = gone;
        learned_ = now;
    }
    if (!active_) {
        active_ = true;
        reason_ = note.reason;
        learn(gone, silent, now);
    } else if (!std::ranges::includes(gone_, gone)) {
        learn(gone, silent, now);
    } else {
        decide_if_complete();
    }
}

void Succession::look(Instant now) {
    if (!active_ || over()) {
        return;
    }
    const std::vector<int> ranks = left();
    const bool leads = ranks.front() == own_;
    if (now - learned_ > (leads ? patience_ : 2 * patience_)) {
        const std::vector<int> silent = leads ? missing() : std::vector<int>{ranks.front()};
        const std::set<int> all(silent.begin(), silent.end());
        learn(all, all, now);
    }
}

void Succession::tell(bool decided) {
    const SuccessionNote note{.gone = {gone_.begin(), gone_.end()},
                              .silent = {silent_.begin(), silent_.end()},
                              .decided = decided,
                              .reason = reason_};
    for (int rank = 0; rank < ranks_; ++rank) {
        if (rank != own_) {
            outgoing_.push_back({.to = rank, .note = note});
        }
    }
}

void Succession::decide_if_complete() {
    std::vector<int> ranks = left();
    if (over() || ranks.front() != own_ || !missing().empty()) {
        return;
    }
    if (may_go_on()) {
        decision_ = std::move(ranks);
        tell(true);
    } else {
        left_out_ = true;
    }
}

std::vector<Succession::Outgoing> Succession::take() {
    return std::exchange(outgoing_, {});
}

}  // namespace cohort
