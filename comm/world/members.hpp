#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace cohort {

/// The excluded ranks, as rank 0 tells them to the others.
struct MembershipState {
    std::uint64_t epoch = 0;
    std::vector<std::uint8_t> excluded;  ///< by rank
    std::vector<std::uint64_t> lost_at;  ///< by rank: epoch of the last exclusion; 0: never
    auto fields() { return std::tie(epoch, excluded, lost_at); }
};

/// What this rank knows of it. Thread safe after open().
class Members {
public:
    /// Nobody is excluded.
    void open(int ranks);

    [[nodiscard]] bool excluded(int rank) const noexcept { return excluded_[index(rank)].load(); }
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(); }
    /// Epoch in which `rank` was excluded the last time; 0: never.
    [[nodiscard]] std::uint64_t lost_at(int rank) const noexcept {
        return lost_at_[index(rank)].load();
    }
    /// The first of `ranks` that is excluded or was so after `epoch`; nothing when none was.
    [[nodiscard]] std::optional<int> lost_since(const std::vector<int>& ranks,
                                                std::uint64_t epoch) const;

    /// On rank 0: the next epoch. Nothing when that changes nothing.
    [[nodiscard]] std::optional<MembershipState> change(int rank, bool excluded);
    /// What rank 0 has said.
    void apply(const MembershipState& state);

private:
    static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }

    std::mutex mutex_;
    std::atomic<std::uint64_t> epoch_{0};
    std::vector<std::atomic<bool>> excluded_;
    std::vector<std::atomic<std::uint64_t>> lost_at_;
};

}  // namespace cohort
