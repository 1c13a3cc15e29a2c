#include "train/coordinator/ring/ring_ids.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

RingIds::Names RingIds::find(const std::vector<int>& members, int group) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
        return known.members == members && known.group == group;
    });
    if (found != known_.end()) {
        Known known = std::move(*found);
        known_.erase(found);
        known_.push_front(std::move(known));
        return known_.front().names;
    }
    Known known{.members = members, .group = group, .names = {.ring = ++newest_}, .last = newest_};
    if (group > 1) {
        const auto wide = static_cast<std::size_t>(group);
        known.names.group = newest_ + 1;
        newest_ += (members.size() + wide - 1) / wide;
        known.last = newest_;
    }
    known_.push_front(std::move(known));
    if (known_.size() > kKept) {
        known_.pop_back();
    }
    return known_.front().names;
}

std::vector<std::uint64_t> RingIds::kept() const {
    std::vector<std::uint64_t> names;
    for (const Known& known : known_) {
        for (std::uint64_t name = known.names.ring; name <= known.last; ++name) {
            names.push_back(name);
        }
    }
    return names;
}

void RingIds::forget(int worker) {
    std::erase_if(known_, [worker](const Known& known) {
        return std::find(known.members.begin(), known.members.end(), worker) != known.members.end();
    });
}

}  // namespace cohort
