#include "sim/job/job_spec.hpp"

#include "optim/update_cost.hpp"

namespace cohort {

VirtualCluster::IterationCost JobSpec::cost_of(std::int64_t samples) const {
    const Workload& work = workload;
    const auto count = static_cast<double>(samples);
    return {.cpu_core_s = work.cpu_s + count * work.cpu_s_per_sample,
            .cpu_threads = work.cpu_threads,
            .device_s = work.device_s + count * work.device_s_per_sample,
            .backward_share = work.backward_share};
}

VirtualCluster::IterationCost JobSpec::update_cost(const ClusterProfile& profile) const {
    const double moved = (1 + update_passes(optimizer)) * workload.parameter_bytes;
    VirtualCluster::IterationCost cost{.cpu_core_s = profile.update_s,
                                       .cpu_threads = profile.server_threads};
    if (profile.device_memory_bytes_per_s > 0) {
        cost.device_s = moved / profile.device_memory_bytes_per_s;
    } else {
        cost.cpu_core_s += moved / profile.memory_bytes_per_s;
    }
    return cost;
}

}  // namespace cohort
