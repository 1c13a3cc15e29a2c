#include "fleet/fleet_use.hpp"

#include <cstddef>
#include <utility>

namespace cohort {
namespace {

/// Half as many points, each of two neighbours.
void merge_pairs(std::vector<FleetUsePoint>& use) {
    std::vector<FleetUsePoint> merged;
    double since_s = 0;
    for (std::size_t i = 0; i + 1 < use.size(); i += 2) {
        FleetUsePoint point = use[i + 1];
        const double share = (use[i].time_s - since_s) / (point.time_s - since_s);
        for (std::size_t node = 0; node < point.devices.size(); ++node) {
            point.devices[node] = share * use[i].devices[node] + (1 - share) * point.devices[node];
        }
        since_s = point.time_s;
        merged.push_back(std::move(point));
    }
    if (use.size() % 2 == 1) {
        merged.push_back(std::move(use.back()));
    }
    use = std::move(merged);
}

}  // namespace

void add_use(std::vector<FleetUsePoint>& use, FleetUsePoint point) {
    use.push_back(std::move(point));
    if (use.size() > FleetResult::kUsePoints) {
        merge_pairs(use);
    }
}

}  // namespace cohort
