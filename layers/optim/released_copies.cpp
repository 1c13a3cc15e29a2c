#include "layers/optim/released_copies.hpp"

#include <utility>

namespace cohort {

void ReleasedCopies::put(int worker, std::int64_t version, std::shared_ptr<const float> values) {
    std::deque<Copy>& copies = sent_[worker];
    if (!copies.empty() && copies.back().version == version) {
        copies.back().values = std::move(values);
        ++copies.back().sent;
        return;
    }
    copies.push_back({version, 1, std::move(values)});
    if (copies.size() > kMost) {
        copies.pop_front();
    }
}

std::shared_ptr<const float> ReleasedCopies::take(int worker, std::int64_t version) {
    const auto found = sent_.find(worker);
    if (found == sent_.end()) {
        return nullptr;
    }
    std::deque<Copy>& copies = found->second;
    while (!copies.empty() && copies.front().version < version) {
        copies.pop_front();
    }
    if (copies.empty() || copies.front().version != version) {
        return nullptr;
    }
    std::shared_ptr<const float> values = copies.front().values;
    if (--copies.front().sent == 0) {
        copies.pop_front();
    }
    return values;
}

}  // namespace cohort
