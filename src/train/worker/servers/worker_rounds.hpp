#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/allreduce/ring_exchange.hpp"

namespace cohort {

/// The sum over a ring's members as a worker uses it: a RingExchange, or in tests something that
/// needs no ranks. Calls and rules are RingExchange's.
class RoundExchange {
public:
    RoundExchange() = default;
    RoundExchange(const RoundExchange&) = delete;
    RoundExchange& operator=(const RoundExchange&) = delete;
    virtual ~RoundExchange() = default;
    [[nodiscard]] virtual std::span<float> begin(std::uint64_t round) = 0;
    virtual void ready(std::int64_t begin, std::int64_t end) = 0;
    virtual void finish(const RingTail& tail) = 0;
    [[nodiscard]] virtual std::optional<std::vector<RingTail>> wait() = 0;
    [[nodiscard]] virtual RingTimes times() const noexcept = 0;
    /// The buffer lies in the memory of RoundScope::device, see RingExchange::on_device.
    [[nodiscard]] virtual bool on_device() const noexcept { return false; }
};

/// Whose loss breaks an exchange besides its members', since when, and where this member's numbers
/// are; as RingOptions says.
struct RoundScope {
    std::vector<int> watched;  ///< world ranks
    std::optional<std::uint64_t> epoch = std::nullopt;
    Device* device = nullptr;  ///< of a replica that is not in host memory
    Stream* stream = nullptr;
};

/// Makes an exchange of `floats` over world ranks in ring order; collective over them.
using RoundExchangeFactory = std::function<std::unique_ptr<RoundExchange>(
    const std::vector<int>& member_ranks, std::int64_t floats, const RoundScope& scope)>;

/// Exchanges of `world`, which must outlive them.
[[nodiscard]] RoundExchangeFactory ring_exchanges(World& world, const RingOptions& options);

/// The exchange of a ring of one: its own contribution is the sum.
[[nodiscard]] std::unique_ptr<RoundExchange> make_lone_exchange(std::int64_t floats);

}  // namespace cohort
