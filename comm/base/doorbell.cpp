#include "comm/base/doorbell.hpp"

#include <memory>
#include <new>
#include <thread>

#include "comm/base/communicators.hpp"
#include "comm/base/futex.hpp"

namespace cohort {

void Doorbells::open(MPI_Comm node, const std::vector<int>& node_ranks, int own_rank,
                     int world_size) {
    by_rank_.assign(static_cast<std::size_t>(world_size), nullptr);
    if (node_ranks.size() < 2) {
        by_rank_[static_cast<std::size_t>(own_rank)] = &private_;
        open_.store(true);
        return;
    }
    void* memory = nullptr;
    check_mpi(MPI_Win_allocate_shared(2 * sizeof(Bell), 1, MPI_INFO_NULL, node, &memory, &window_));
    check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
    for (std::size_t i = 0; i < node_ranks.size(); ++i) {
        MPI_Aint bytes = 0;
        int unit = 0;
        void* theirs = nullptr;
        check_mpi(MPI_Win_shared_query(window_, static_cast<int>(i), &bytes, &unit, &theirs));
        // Twice the size was asked for, so an aligned bell fits wherever the memory begins.
        std::size_t space = 2 * sizeof(Bell);
        void* aligned = std::align(alignof(Bell), sizeof(Bell), theirs, space);
        by_rank_[static_cast<std::size_t>(node_ranks[i])] = static_cast<Bell*>(aligned);
    }
    own_.store(new (by_rank_[static_cast<std::size_t>(own_rank)]) Bell);
    check_mpi(MPI_Barrier(node));  // no rank rings a bell before it exists
    open_.store(true);
}

void Doorbells::close() {
    // A thread that rings says so, then looks at the bells; this one changes them, then looks
    // whether anybody rings: one of the two always sees the other.
    open_.store(false);
    own_.store(&private_);
    while (ringing_.load() != 0) {
        std::this_thread::yield();
    }
    by_rank_.clear();
    if (window_ != MPI_WIN_NULL) {
        check_mpi(MPI_Win_free(&window_));
    }
}

// The sleeper says that it sleeps, then the kernel compares the word; the ringer changes the word,
// then looks whether anybody sleeps: one of the two always sees the other.
void Doorbells::ring(Bell& bell) noexcept {
    bell.rung.fetch_add(1);
    if (bell.sleeping.load() != 0) {
        futex_wake_all(bell.rung);
    }
}

void Doorbells::ring_own() noexcept {
    ringing_.fetch_add(1);
    ring(*own_.load());
    ringing_.fetch_sub(1);
}

void Doorbells::ring(int world_rank) noexcept {
    const auto index = static_cast<std::size_t>(world_rank);
    ringing_.fetch_add(1);
    if (open_.load() && index < by_rank_.size() && by_rank_[index] != nullptr) {
        ring(*by_rank_[index]);
    }
    ringing_.fetch_sub(1);
}

void Doorbells::sleep(std::uint32_t seen, std::chrono::microseconds limit) noexcept {
    Bell& bell = *own_.load();
    bell.sleeping.store(1);
    futex_sleep(bell.rung, seen, limit);
    bell.sleeping.store(0);
}

}  // namespace cohort
