#include "session/worker_queue.hpp"

#include <utility>

namespace cohort {

void WorkerQueue::released(int worker) {
    at(worker).running = false;  // whatever it did, it begins anew
    ready_.insert(worker);
    if (!unneeded_.contains(worker)) {
        wanting_.insert(worker);
    }
}

void WorkerQueue::arrived(int worker) {
    at(worker).running = false;
    ready_.erase(worker);
}

void WorkerQueue::returns(int worker, std::uint64_t lease) {
    const LeaseOrder* const current = session_.leases().open().oldest_unpushed(worker);
    if (current == nullptr || current->lease != lease) {
        return;
    }
    if (std::exchange(at(worker).running, false)) {
        ready_.insert(worker);
    }
    session_.iteration_abandoned(worker);
}

void WorkerQueue::begin_iterations() {
    std::erase_if(ready_, [this](int worker) {
        const LeaseOrder* const lease = session_.leases().open().oldest_unpushed(worker);
        if (lease != nullptr) {
            at(worker).running = true;
            session_.iteration_begun(worker, lease->count);
        }
        return lease != nullptr;
    });
}

bool WorkerQueue::set_idle(int worker, bool idle) {
    return std::exchange(at(worker).idle, idle);
}

std::array<std::vector<int>, 2> WorkerQueue::wanting() const {
    return {std::vector<int>(unneeded_.begin(), unneeded_.end()),
            std::vector<int>(wanting_.begin(), wanting_.end())};
}

void WorkerQueue::served(int worker) {
    wanting_.erase(worker);
    unneeded_.erase(worker);
}

std::vector<int> WorkerQueue::take_wanting() {
    std::vector<int> workers(wanting_.begin(), wanting_.end());
    unneeded_.merge(wanting_);
    wanting_.clear();
    return workers;
}

}  // namespace cohort
