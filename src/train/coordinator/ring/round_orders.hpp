#pragma once

#include <cstdint>

#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_gradients.hpp"
#include "train/coordinator/ring/ring_requests.hpp"
#include "train/coordinator/ring/ring_roles.hpp"

namespace cohort {

/// Tells the members what a granted round is: all that they need to sum, update and go on without
/// asking.
class RoundOrders {
public:
    RoundOrders(RingContext& context, RingGradients& gradients, RingRoles& roles,
                RingRequests& requests)
        : context_(context), gradients_(gradients), roles_(roles), requests_(requests) {}

    /// @param round  the newest one; what its update is worth is filled in
    void send(Round& round);
    /// Members need not begin rounds that are granted and have not begun, unless these leave
    /// something behind, which is counted on. Which rounds have begun when the members receive the
    /// order is a matter of time, so a deterministic job carries out all that are granted.
    void halt();

private:
    void weigh(Round& round) const;
    [[nodiscard]] RoundOrder order_of(const Round& round);

    RingContext& context_;
    RingGradients& gradients_;
    RingRoles& roles_;
    RingRequests& requests_;
    std::uint64_t group_rounds_ = 0;
    HaltOrder halted_;  ///< the newest one
};

}  // namespace cohort
