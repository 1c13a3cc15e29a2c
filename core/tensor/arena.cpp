#include "core/tensor/arena.hpp"

#include <algorithm>
#include <numeric>

namespace cohort {
namespace {

struct Placed {
    std::size_t begin;
    std::size_t end;
    int first;
    int last;
};

std::size_t lowest_free_offset(const std::vector<Placed>& placed, const ArenaRequest& request) {
    std::size_t offset = 0;
    for (const Placed& other : placed) {  // sorted by begin
        const bool overlaps = other.first <= request.last && request.first <= other.last;
        if (!overlaps) {
            continue;
        }
        if (other.begin >= offset + request.bytes) {
            break;
        }
        offset = std::max(offset, other.end);
    }
    return offset;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaRequest>& requests, std::size_t alignment) {
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return requests[a].bytes > requests[b].bytes;
    });
    ArenaPlan plan;
    plan.offsets.resize(requests.size());
    std::vector<Placed> placed;
    for (const std::size_t index : order) {
        ArenaRequest request = requests[index];
        request.bytes = (request.bytes + alignment - 1) / alignment * alignment;
        const std::size_t offset = lowest_free_offset(placed, request);
        plan.offsets[index] = offset;
        if (request.bytes == 0) {
            continue;
        }
        const Placed entry{offset, offset + request.bytes, request.first, request.last};
        placed.insert(
            std::upper_bound(placed.begin(), placed.end(), entry,
                             [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
            entry);
        plan.total_bytes = std::max(plan.total_bytes, entry.end);
    }
    return plan;
}

}  // namespace cohort
