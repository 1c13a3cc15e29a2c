#include "train/coordinator/run_wait.hpp"

#include <utility>

namespace cohort {

void RunWait::begin(std::string_view name, std::uint64_t sequence, WaitLimit limit) {
    wait_.reset();
    wait_ = board_.begin(
        name, sequence,
        [this] {
            const std::lock_guard lock(mutex_);
            return awaited_;
        },
        limit);
}

void RunWait::set_awaited(std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    awaited_ = std::move(ranks);
}

void RunWait::renew() {
    if (wait_) {
        wait_->renew();
    }
}

void RunWait::watch_update(std::vector<int> awaited, std::int64_t version) {
    const bool waiting = !awaited.empty();
    set_awaited(std::move(awaited));
    if (!waiting) {
        end();
    } else if (!wait_ || version_ != version) {
        version_ = version;
        begin("update", static_cast<std::uint64_t>(version + 1));
    }
}

}  // namespace cohort
