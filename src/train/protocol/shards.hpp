#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/wire.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/sched/job_options.hpp"

namespace cohort {

/// One owner's part of the flat buffers: the parameters [begin, end) (floats) and, for the last
/// part, all of the state. With rings there is one part.
struct ShardRange {
    std::int32_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t state = 0;  ///< floats of state in this part

    [[nodiscard]] std::int64_t parameters() const noexcept { return end - begin; }
    /// Floats in a transfer of this part: parameters, then state.
    [[nodiscard]] std::int64_t floats() const noexcept { return parameters() + state; }
};

/// How parameters, with state behind them or not, lie on the wire when workers pull them: the
/// parameters rounded, the state as it is, since variances and means are few and differ in size.
struct PulledBytes {
    Wire wire = Wire::kF32;
    std::int64_t parameters = 0;

    /// Of the first floats of [parameters, state].
    [[nodiscard]] std::uint64_t of(std::int64_t floats) const noexcept {
        const std::int64_t rounded = std::min(floats, parameters);
        return static_cast<std::uint64_t>(rounded) * wire_bytes(wire) +
               static_cast<std::uint64_t>(floats - rounded) * sizeof(float);
    }
};

/// How the parameters are divided, as messages say it. Servers and workers change to another one
/// when no push is in flight, and pushes name the one that they are cut by.
struct ShardLayout {
    std::uint32_t number = 0;        ///< counts the layouts of a run
    std::vector<std::int64_t> ends;  ///< by part, multiples of 16 floats, ascending
    auto fields() { return std::tie(number, ends); }
};

/// Cuts the parameters of a graph into `parts` of equal bytes, by bytes alone, at multiples of 64.
[[nodiscard]] std::vector<ShardRange> cut_shards(const Graph& graph, int parts);
/// The same by shares, one for each part. Errors: UsageError for more parts than can be cut.
[[nodiscard]] std::vector<ShardRange> cut_shards(const Graph& graph,
                                                 std::span<const double> shares);
/// The parts of a layout. @param state  floats of the state
[[nodiscard]] std::vector<ShardRange> shards_of(const ShardLayout& layout, std::int64_t state);
[[nodiscard]] ShardLayout layout_of(std::uint32_t number, const std::vector<ShardRange>& shards);

/// Shares of the servers at the start, the same on every rank. What is known then is which servers
/// and workers share the network card of a host.
[[nodiscard]] std::vector<double> initial_shares(ShardSizes sizes, const RankMap& map);

}  // namespace cohort
