#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// What one iteration of a model costs a worker, and an update a server, on a given machine.
struct Workload {
    std::string name;    ///< a model of the zoo, or any other name
    std::string source;  ///< where the numbers come from: a publication, or what measured them
    double device_s_per_sample = 0;  ///< forward and backward on the device
    double device_s = 0;             ///< the same, whatever the batch (launching kernels)
    double cpu_s_per_sample = 0;  ///< core seconds that the device waits for: input, augmentation
    double cpu_s = 0;             ///< the same, whatever the batch
    double cpu_threads = 1;       ///< cores that this work can use at once
    /// Of the device's time, at its end: while gradients become ready and leave.
    double backward_share = 2.0 / 3;
    double parameter_bytes = 0;  ///< of a push, and of a pull
};

/// A kind of node and what runs on it.
struct ClusterProfile {
    std::string name;
    std::string source;             ///< where the numbers come from
    int devices_per_node = 1;       ///< workers that a node has room for
    double nic_bytes_per_s = 0;     ///< in each direction
    double latency_s = 0;           ///< of a message between two nodes
    double local_bytes_per_s = 0;   ///< between two ranks of a node
    double cores = 1;               ///< of a node
    double memory_bytes_per_s = 0;  ///< that one core of a server moves when it sums and updates
    double update_s = 0;            ///< core seconds of an update, whatever its size
    double server_threads = 1;      ///< cores that a server can use at once
    /// That a worker's device moves when a ring's member updates; 0: the processors do it.
    double device_memory_bytes_per_s = 0;
    std::map<std::string, Workload, std::less<>> workloads;

    /// Errors: UsageError naming the workloads that there are.
    [[nodiscard]] const Workload& workload(std::string_view workload_name) const;
};

/// A shipped profile by name ("8gpu-10g", "8gpu-100g" ...), or a file in TOML; docs/profiles.md
/// has both. Errors: UsageError for an unknown name, FileError naming file, line and key.
[[nodiscard]] ClusterProfile load_profile(const std::string& name_or_file);
/// Names of the shipped ones.
[[nodiscard]] std::vector<std::string> shipped_profiles();
/// The text of a profile file.
[[nodiscard]] std::string to_toml(const ClusterProfile& profile);

}  // namespace cohort
