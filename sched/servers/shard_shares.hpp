#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

/// A parameter server: where it is, and how long it would take with all of the parameters.
struct ServerSpeed {
    int node = 0;
    double whole_s = 0;  ///< seconds for the pushes, pulls and updates of a reference batch, > 0
};

/// The least share of a server, of an equal one: with less it has too few bytes to be measured by.
inline constexpr double kLeastShare = 0.05;

/// The share of the parameters that each server should own, so that the slowest one is done as
/// early as possible. A server with the share s takes s whole_s. A node with n of the N workers,
/// 0 < n < N, and the share S of the parameters carries (N - n) S of them for its servers, and over
/// the same network card n (1 - S) for its workers, which takes
///     n / (N - n) (1 - S) / sum of 1 / whole_s of its servers.
/// The shares minimise the largest of these times; those of servers on nodes without workers are in
/// proportion to 1 / whole_s. What that leaves open is divided in proportion to 1 / whole_s as
/// well.
/// @param servers  at least one  @param worker_nodes  node of each worker
/// @return [servers], sum 1, each about kLeastShare / servers at least
[[nodiscard]] std::vector<double> capacity_shares(std::span<const ServerSpeed> servers,
                                                  std::span<const int> worker_nodes);
/// The largest of these times, seconds.
[[nodiscard]] double slowest_server_s(std::span<const ServerSpeed> servers,
                                      std::span<const int> worker_nodes,
                                      std::span<const double> shares);
[[nodiscard]] std::vector<double> equal_shares(std::size_t servers);

/// Cuts [0, units) into one range per server, by shares; a server has one unit at least. Equal
/// shares give the ranges [units i / servers, units (i + 1) / servers).
/// @param units  at least one per server  @param shares  > 0; their sum need not be 1
/// @return [servers + 1] where ranges begin, and the end
[[nodiscard]] std::vector<std::int64_t> cut_by_shares(std::int64_t units,
                                                      std::span<const double> shares);

/// A part of what servers own that goes from one to another when ranges change.
struct ShardMove {
    int from = 0;
    int to = 0;
    double begin = 0;  ///< in the unit of the cuts
    double end = 0;
};
/// What moves between servers when the cuts change. @param before, after  [servers + 1], ascending
[[nodiscard]] std::vector<ShardMove> moves_between(std::span<const double> before,
                                                   std::span<const double> after);

}  // namespace cohort
