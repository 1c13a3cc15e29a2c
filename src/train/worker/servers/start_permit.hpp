#pragma once

#include <algorithm>
#include <cstdint>

#include "train/protocol/protocol.hpp"

namespace cohort {

/// Whether a worker of servers may start a mini-batch. Every complete set of parameters permits
/// one; a set that was not used is superseded by the next. Orders and parameters are received over
/// different connections and overtake each other, so this is what a kRevoke means:
///  - parameters older than the order's are not used any more: newer ones are in flight;
///  - the lease begun last was taken back, and was begun on parameters as new as the order's or
///    newer (they had overtaken it): no others will come for it, the permit is held again;
///  - any other lease that was taken back changes nothing: what followed it was released.
/// Pure.
class StartPermit {
public:
    [[nodiscard]] bool held() const noexcept { return held_; }
    /// Of the parameters in use; -1: none yet.
    [[nodiscard]] std::int64_t version() const noexcept { return version_; }

    /// Parameters of `version` are in use.
    void parameters(std::int64_t version) noexcept {
        version_ = version;
        held_ = version_ >= least_;
    }
    /// A mini-batch on `lease` begins: the permit is used up.
    void begin(std::uint64_t lease) noexcept {
        held_ = false;
        begun_ = lease;
        begun_version_ = version_;
    }
    void revoke(const RevokeOrder& order) noexcept {
        least_ = std::max(least_, order.version);
        held_ = held_ && version_ >= least_;
        const bool came_back = begun_ != 0 && (begun_ <= order.up_to ||
                                               std::find(order.leases.begin(), order.leases.end(),
                                                         begun_) != order.leases.end());
        if (came_back) {
            begun_ = 0;
            held_ = held_ || begun_version_ >= least_;
        }
    }
    /// The worker restarts: only parameters that are received from now on permit a mini-batch.
    void join() noexcept {
        held_ = false;
        begun_ = 0;
    }

private:
    std::int64_t version_ = -1;
    std::int64_t least_ = 0;  ///< older parameters are not used any more
    bool held_ = false;
    std::uint64_t begun_ = 0;  ///< lease begun last; 0: none that could still be taken back
    std::int64_t begun_version_ = -1;
};

}  // namespace cohort
