#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace cohort {

enum class Role : std::uint8_t { kServer, kWorker };

/// What is known of one rank of the job.
struct RankInfo {
    int rank = 0;  ///< in the world
    std::string host;
    std::int64_t pid = 0;
    int node = 0;       ///< index of its host, in the order of the lowest rank there
    int node_rank = 0;  ///< among the ranks of its host
    std::string cores;  ///< cores it may run on, "0-3,8"
    Role role = Role::kWorker;
    std::string device = "cpu";  ///< what its role computes on: "cpu", "cuda:1"
    int fleet_rank = -1;         ///< of a job of a fleet: the rank there; else -1
    int first_rank = -1;         ///< in the job's first World; -1: not known, or the same

    auto fields() {
        return std::tie(rank, host, pid, node, node_rank, cores, role, device, fleet_rank,
                        first_rank);
    }
};

/// The placement of the ranks, the same on every rank. With parameter servers the ranks 0..S-1 are
/// servers and the others workers; with rings all are workers. Worker index and server index count
/// from 0 within the role and are not world ranks.
struct RankMap {
    std::vector<RankInfo> ranks;  ///< by world rank
    int servers = 0;              ///< S; 0 with rings

    [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks.size()); }
    [[nodiscard]] int workers() const noexcept { return size() - servers; }
    [[nodiscard]] int rank_of_worker(int worker) const noexcept { return servers + worker; }
    [[nodiscard]] int rank_of_server(int server) const noexcept { return server; }
    [[nodiscard]] int worker_of_rank(int rank) const noexcept { return rank - servers; }
    [[nodiscard]] int nodes() const noexcept;
    /// World ranks on a node, ascending.
    [[nodiscard]] std::vector<int> on_node(int node) const;
    /// The rank's number in the job's first World, by which --inject names it.
    [[nodiscard]] int first_rank(int rank) const;
    /// "rank 3 (host h1, pid 4711)"; of a job of a fleet "rank 3 (rank 8 of the fleet, host ...)";
    /// after a loss "rank 3 (rank 4 at first, host ...)".
    [[nodiscard]] std::string describe(int rank) const;
    /// The same for several, with commas; "nobody" for none.
    [[nodiscard]] std::string describe(const std::vector<int>& some) const;
    /// Place of a rank among those of its role on its node.
    [[nodiscard]] int place_in_role(int rank) const noexcept;
    /// Lines for the start-up header: rank -> role -> host -> cores -> GPU, ranks of one host on
    /// one line.
    [[nodiscard]] std::vector<std::string> facts() const;
};

/// The device of a rank as make_device() takes it: the ranks of a role on one node go round its
/// GPUs. @param option  "cpu", "auto" (a GPU where there are some), "cuda"; anything else, as
/// "cuda:1", is for all ranks alike  @param gpus  that the rank sees
[[nodiscard]] std::string device_of_rank(std::string_view option, const RankMap& map, int rank,
                                         int gpus);
/// Whether that depends on how many GPUs there are.
[[nodiscard]] bool shares_gpus(std::string_view option) noexcept;
/// GPUs that this rank sees for device_of_rank(): "cuda": all that the driver reports; "auto":
/// those that can be used; 0 for other options.
[[nodiscard]] int gpus_for(std::string_view option);

}  // namespace cohort
