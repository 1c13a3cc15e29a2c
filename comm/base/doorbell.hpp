#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace cohort {

/// What the communication threads of one node sleep on: a futex word per rank in memory that they
/// share, so that a message through shared memory is seen at once although nobody polls.
class Doorbells {
public:
    /// With the own bell only.
    Doorbells() = default;
    Doorbells(const Doorbells&) = delete;
    Doorbells& operator=(const Doorbells&) = delete;
    ~Doorbells() = default;

    /// Collective over `node`. @param node_ranks world ranks of its members, in its order
    void open(MPI_Comm node, const std::vector<int>& node_ranks, int own_rank, int world_size);
    /// Collective. Afterwards only the own bell is left; others may still ring.
    void close();

    /// Wakes the owner if it sleeps. Thread safe; nothing for ranks of other nodes.
    void ring(int world_rank) noexcept;
    void ring_own() noexcept;

    /// How often the own bell has rung.
    [[nodiscard]] std::uint32_t rung() const noexcept { return own_.load()->rung.load(); }
    /// Sleeps until the bell has rung since rung() returned `seen`, at most `limit`.
    void sleep(std::uint32_t seen, std::chrono::microseconds limit) noexcept;

private:
    struct alignas(64) Bell {
        std::atomic<std::uint32_t> rung{0};
        std::atomic<std::uint32_t> sleeping{0};
    };
    static void ring(Bell& bell) noexcept;

    Bell private_;
    std::atomic<Bell*> own_{&private_};
    std::atomic<bool> open_{false};  ///< by_rank_ may be read
    std::atomic<int> ringing_{0};    ///< threads that are about to touch a bell
    std::vector<Bell*> by_rank_;     // null for ranks of other nodes
    MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace cohort
