#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/comm/world.hpp"

namespace cohort {

/// What training came to: flat parameters, then state. Null: there is none.
using FinalValues = std::shared_ptr<const std::vector<float>>;

/// Brings the final values of a job from rank 0, where model.h5 is written, to all ranks:
///  1. Every rank's roles are over, so their port is free: it gets this object as its sink.
///  2. All ranks agree that this is so.
///  3. Rank 0 sends the values to each rank that lives; the others wait for them.
/// Cost: rank 0 sends the bytes once to each rank.
class FinalValuesExchange final : public TransferSink {
public:
    /// Collective, once, when no role of the job is left. @param own  those of rank 0
    /// @param failed  training has failed, which rank 0 knows
    /// Errors: on all ranks but rank 0, an Error without a text when training has failed.
    void share(World& world, const FinalValues& own, bool failed);
    /// What share() has brought here.
    [[nodiscard]] const FinalValues& values() const noexcept { return values_; }

private:
    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    [[nodiscard]] FinalValues receive(World& world) const;

    std::shared_ptr<std::vector<float>> received_;
    FinalValues values_;
};

}  // namespace cohort
