#include "train/protocol/shards.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"
#include "sched/servers/shard_shares.hpp"

namespace cohort {

std::vector<ShardRange> cut_shards(const Graph& graph, int parts) {
    return cut_shards(graph, equal_shares(static_cast<std::size_t>(std::max(parts, 0))));
}

std::vector<ShardRange> cut_shards(const Graph& graph, std::span<const double> shares) {
    const std::int64_t lines = graph.parameters().total() / FlatLayout::kAlignment;
    const auto parts = static_cast<std::int64_t>(shares.size());
    if (parts < 1 || parts > lines) {
        fail<UsageError>({.where = "--servers",
                          .what = "the parameters cannot be cut into so many parts",
                          .expected = fmt::format("1..{}", lines),
                          .got = std::to_string(parts),
                          .hint = "fewer servers"});
    }
    ShardLayout layout;
    for (const std::int64_t cut : cut_by_shares(lines, shares)) {
        layout.ends.push_back(cut * FlatLayout::kAlignment);
    }
    layout.ends.erase(layout.ends.begin());
    return shards_of(layout, graph.state().total());
}

std::vector<ShardRange> shards_of(const ShardLayout& layout, std::int64_t state) {
    std::vector<ShardRange> shards;
    std::int64_t begin = 0;
    for (const std::int64_t end : layout.ends) {
        shards.push_back(
            {.part = static_cast<std::int32_t>(shards.size()), .begin = begin, .end = end});
        begin = end;
    }
    shards.back().state = state;
    return shards;
}

ShardLayout layout_of(std::uint32_t number, const std::vector<ShardRange>& shards) {
    ShardLayout layout{.number = number, .ends = {}};
    for (const ShardRange& shard : shards) {
        layout.ends.push_back(shard.end);
    }
    return layout;
}

std::vector<double> initial_shares(ShardSizes sizes, const RankMap& map) {
    const auto node_of = [&map](int rank) {
        return map.ranks[static_cast<std::size_t>(rank)].node;
    };
    std::vector<ServerSpeed> servers;
    std::vector<int> worker_nodes;
    for (int rank = 0; rank < map.size(); ++rank) {
        if (rank >= map.servers) {
            worker_nodes.push_back(node_of(rank));
            continue;
        }
        servers.push_back({.node = node_of(rank), .whole_s = 0});
        for (int other = 0; other < map.servers; ++other) {
            servers.back().whole_s += node_of(other) == node_of(rank) ? 1 : 0;
        }
    }
    return sizes == ShardSizes::kEqual ? equal_shares(servers.size())
                                       : capacity_shares(servers, worker_nodes);
}

}  // namespace cohort
