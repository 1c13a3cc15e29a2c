#include "comm/transfer/requests.hpp"

#include <algorithm>
#include <utility>

#include "comm/base/communicators.hpp"

namespace cohort {

void RequestPool::add(MPI_Request request, int peer, std::function<void()> at_end, bool abandoned) {
    requests_.push_back(request);
    entries_.push_back({peer, abandoned, std::move(at_end)});
    abandoned_ += abandoned ? 1 : 0;
}

void RequestPool::abandon(int peer) {
    for (Entry& entry : entries_) {
        if (entry.peer == peer && !entry.abandoned) {
            entry.abandoned = true;
            ++abandoned_;
        }
    }
}

bool RequestPool::poll() {
    if (requests_.empty()) {
        return false;
    }
    completed_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(mpi_count(requests_.size()), requests_.data(), &count,
                                  completed_.data(), statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
        for (int i = 0; i < count; ++i) {
            check_mpi(statuses_[static_cast<std::size_t>(i)].MPI_ERROR);
        }
    }
    check_mpi(code);
    if (count <= 0) {  // MPI_UNDEFINED is negative
        return false;
    }
    // In the order in which they were added; what the ends add must not be taken for these.
    std::sort(completed_.begin(), completed_.begin() + count);
    std::vector<std::function<void()>> due;
    for (int i = 0; i < count; ++i) {
        Entry& entry = entries_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
        abandoned_ -= entry.abandoned ? 1 : 0;
        due.push_back(std::move(entry.at_end));
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i] != MPI_REQUEST_NULL) {
            requests_[kept] = requests_[i];
            if (kept != i) {
                entries_[kept] = std::move(entries_[i]);
            }
            ++kept;
        }
    }
    requests_.resize(kept);
    entries_.resize(kept);
    for (const auto& end : due) {
        end();
    }
    return true;
}

}  // namespace cohort
