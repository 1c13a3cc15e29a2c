#pragma once

#include <array>
#include <string_view>

#include "cohort/sim/profile.hpp"

namespace cohort {

/// A number of a profile file: its key, where it goes, and what it may be.
template <class T>
struct ProfileField {
    std::string_view key;
    double T::*field = nullptr;
    double least = 0;
    bool may_be_least = true;  ///< else it must be larger
    double most = 1e18;
    bool required = false;
};

inline constexpr std::array<ProfileField<ClusterProfile>, 8> kClusterFields{{
    {.key = "cores", .field = &ClusterProfile::cores, .may_be_least = false, .required = true},
    {.key = "nic_bytes_per_s",
     .field = &ClusterProfile::nic_bytes_per_s,
     .may_be_least = false,
     .required = true},
    {.key = "latency_s", .field = &ClusterProfile::latency_s},
    {.key = "local_bytes_per_s",
     .field = &ClusterProfile::local_bytes_per_s,
     .may_be_least = false,
     .required = true},
    {.key = "memory_bytes_per_s",
     .field = &ClusterProfile::memory_bytes_per_s,
     .may_be_least = false,
     .required = true},
    {.key = "update_s", .field = &ClusterProfile::update_s},
    {.key = "server_threads", .field = &ClusterProfile::server_threads, .may_be_least = false},
    {.key = "device_memory_bytes_per_s", .field = &ClusterProfile::device_memory_bytes_per_s},
}};

inline constexpr std::array<ProfileField<Workload>, 7> kWorkloadFields{{
    {.key = "device_s_per_sample", .field = &Workload::device_s_per_sample, .required = true},
    {.key = "device_s", .field = &Workload::device_s},
    {.key = "cpu_s_per_sample", .field = &Workload::cpu_s_per_sample},
    {.key = "cpu_s", .field = &Workload::cpu_s},
    {.key = "cpu_threads", .field = &Workload::cpu_threads, .may_be_least = false},
    {.key = "backward_share", .field = &Workload::backward_share, .most = 1},
    {.key = "parameter_bytes",
     .field = &Workload::parameter_bytes,
     .may_be_least = false,
     .required = true},
}};

}  // namespace cohort
