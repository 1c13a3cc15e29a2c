#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cohort {

/// Deals validation leases: samples whose gradient others are compared with, and which are not
/// accounted for. Workers take turns. Pure.
class ValidationSampler {
public:
    struct Dealt {
        int worker = 0;
        std::uint64_t lease = 0;
        std::uint32_t epoch = 0;
        std::int64_t position = 0;  ///< in the epoch's order
        std::int64_t count = 0;     ///< samples
    };
    /// Their numbers have this bit, which those of the lease book never reach.
    static constexpr std::uint64_t kBit = std::uint64_t{1} << 63U;

    /// @param samples of an epoch  @param batch of a lease; less when the epoch has fewer
    ValidationSampler(std::uint64_t seed, std::int64_t samples, std::int64_t batch);

    /// Another plan: a lease is due at once when it validates.
    /// @param every so many updates (SyncPlan::validate_every); 0: never
    void set_every(int every) noexcept;
    /// An update was made, or a push was refused: were only updates counted, a reference that has
    /// everything refused would stay for ever.
    void decided() noexcept { ++decisions_; }
    [[nodiscard]] bool due() const noexcept { return every_ > 0 && decisions_ >= every_; }
    /// A lease, when one is due and somebody may do it.
    /// @param may by worker  @param epoch whose order the samples are drawn from
    [[nodiscard]] std::optional<Dealt> deal(const std::vector<bool>& may, std::uint32_t epoch);

private:
    std::uint64_t seed_;
    std::int64_t samples_;
    std::int64_t batch_;
    int every_ = 0;
    std::int64_t decisions_ = 0;  ///< since the last one was due
    std::uint64_t dealt_ = 0;
    std::size_t turn_ = 0;  ///< worker
};

}  // namespace cohort
