#include "train/worker/servers/start_permit.hpp"

#include <algorithm>

namespace cohort {

void StartPermit::parameters(std::int64_t version) noexcept {
    version_ = version;
    held_ = version_ >= least_;
}

void StartPermit::begin(std::uint64_t lease) noexcept {
    held_ = false;
    begun_ = lease;
    begun_version_ = version_;
}

void StartPermit::revoke(const RevokeOrder& order) noexcept {
    least_ = std::max(least_, order.version);
    held_ = held_ && version_ >= least_;
    const bool came_back =
        begun_ != 0 && (begun_ <= order.up_to || std::find(order.leases.begin(), order.leases.end(),
                                                           begun_) != order.leases.end());
    if (came_back) {
        begun_ = 0;
        held_ = held_ || begun_version_ >= least_;
    }
}

void StartPermit::join() noexcept {
    held_ = false;
    begun_ = 0;
}

}  // namespace cohort
