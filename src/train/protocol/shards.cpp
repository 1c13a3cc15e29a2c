#include "train/protocol/shards.hpp"

#include <fmt/format.h>

#include "cohort/core/error.hpp"

namespace cohort {

std::vector<ShardRange> cut_shards(const Graph& graph, int parts) {
    const std::int64_t lines = graph.parameters().total() / FlatLayout::kAlignment;
    if (parts < 1 || parts > lines) {
        fail<UsageError>({.where = "--servers",
                          .what = "the parameters cannot be cut into so many parts",
                          .expected = fmt::format("1..{}", lines),
                          .got = std::to_string(parts),
                          .hint = "fewer servers"});
    }
    std::vector<ShardRange> shards;
    for (std::int32_t part = 0; part < parts; ++part) {
        shards.push_back({.part = part,
                          .begin = lines * part / parts * FlatLayout::kAlignment,
                          .end = lines * (part + 1) / parts * FlatLayout::kAlignment,
                          .state = part == 0 ? graph.state().total() : 0});
    }
    return shards;
}

}  // namespace cohort
