#pragma once

#include <array>
#include <string_view>

#include "cohort/core/limits.hpp"
#include "cohort/formats/profile.hpp"

namespace cohort {

inline constexpr Limits<double> kProfileSeconds{.least = 0, .most = 1e6};
inline constexpr Limits<double> kProfileThreads{.least = 0.001, .most = 1e6};
inline constexpr Limits<double> kProfileBytes{
    .least = 0, .most = 1e18, .ends = Limits<double>::Ends::kNotLeast};
/// Below a byte a second nothing gets anywhere.
inline constexpr Limits<double> kProfileRate{.least = 1, .most = 1e18};
inline constexpr Limits<double> kProfileRateOrNone{.least = 1, .most = 1e18, .or_zero = true};

/// A number of a profile file: its key, where it goes, and what it may be.
template <class T>
struct ProfileField {
    std::string_view key;
    double T::*field = nullptr;
    Limits<double> limits;
    bool required = false;
};

inline constexpr std::array<ProfileField<ClusterProfile>, 8> kClusterFields{{
    {"cores", &ClusterProfile::cores, kProfileThreads, true},
    {"nic_bytes_per_s", &ClusterProfile::nic_bytes_per_s, kProfileRate, true},
    {"latency_s", &ClusterProfile::latency_s, kProfileSeconds},
    {"local_bytes_per_s", &ClusterProfile::local_bytes_per_s, kProfileRate, true},
    {"memory_bytes_per_s", &ClusterProfile::memory_bytes_per_s, kProfileRate, true},
    {"update_s", &ClusterProfile::update_s, kProfileSeconds},
    {"server_threads", &ClusterProfile::server_threads, kProfileThreads},
    {"device_memory_bytes_per_s", &ClusterProfile::device_memory_bytes_per_s, kProfileRateOrNone},
}};

inline constexpr std::array<ProfileField<Workload>, 7> kWorkloadFields{{
    {"device_s_per_sample", &Workload::device_s_per_sample, kProfileSeconds, true},
    {"device_s", &Workload::device_s, kProfileSeconds},
    {"cpu_s_per_sample", &Workload::cpu_s_per_sample, kProfileSeconds},
    {"cpu_s", &Workload::cpu_s, kProfileSeconds},
    {"cpu_threads", &Workload::cpu_threads, kProfileThreads},
    {"backward_share", &Workload::backward_share, {.least = 0, .most = 1}},
    {"parameter_bytes", &Workload::parameter_bytes, kProfileBytes, true},
}};

}  // namespace cohort
