#include "requests.hpp"

#include <algorithm>
#include <utility>

#include "communicators.hpp"

namespace cohort {

void RequestPool::add(MPI_Request request, std::function<void()> at_end) {
    requests_.push_back(request);
    ends_.push_back(std::move(at_end));
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
        due.push_back(
            std::move(ends_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])]));
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i] != MPI_REQUEST_NULL) {
            requests_[kept] = requests_[i];
            if (kept != i) {
                ends_[kept] = std::move(ends_[i]);
            }
            ++kept;
        }
    }
    requests_.resize(kept);
    ends_.resize(kept);
    for (const auto& end : due) {
        end();
    }
    return true;
}

}  // namespace cohort
