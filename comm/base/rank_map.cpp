#include "cohort/comm/rank_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/tensor/device.hpp"

namespace cohort {
namespace {

std::string numbers(int first, int last) {
    return first == last ? fmt::format(" {}", first) : fmt::format("s {}-{}", first, last);
}

/// Ranks first..last of one role, e.g. "ranks 1-3: workers 0-2, cores 0-1".
std::string run_text(const RankMap& map, int first, int last) {
    const RankInfo& info = map.ranks[static_cast<std::size_t>(first)];
    const bool server = info.role == Role::kServer;
    const int shift = server ? 0 : map.servers;
    return fmt::format("rank{}: {}{}, cores {}{}", numbers(first, last),
                       server ? "server" : "worker", numbers(first - shift, last - shift),
                       info.cores, info.device == "cpu" ? "" : ", " + info.device);
}

}  // namespace

int RankMap::nodes() const noexcept {
    int count = 0;
    for (const RankInfo& info : ranks) {
        count = std::max(count, info.node + 1);
    }
    return count;
}

std::vector<int> RankMap::on_node(int node) const {
    std::vector<int> found;
    for (const RankInfo& info : ranks) {
        if (info.node == node) {
            found.push_back(info.rank);
        }
    }
    return found;
}

int RankMap::first_rank(int rank) const {
    const RankInfo& info = ranks.at(static_cast<std::size_t>(rank));
    return info.first_rank < 0 ? rank : info.first_rank;
}

std::string RankMap::describe(int rank) const {
    const RankInfo& info = ranks.at(static_cast<std::size_t>(rank));
    std::string other;
    if (info.fleet_rank >= 0) {
        other = fmt::format("rank {} of the fleet, ", info.fleet_rank);
    } else if (first_rank(rank) != rank) {
        other = fmt::format("rank {} at first, ", first_rank(rank));
    }
    return fmt::format("rank {} ({}host {}, pid {})", rank, other, info.host, info.pid);
}

std::string RankMap::describe(const std::vector<int>& some) const {
    if (some.empty()) {
        return "nobody";
    }
    std::string text;
    for (const int rank : some) {
        text += (text.empty() ? "" : ", ") + describe(rank);
    }
    return text;
}

int RankMap::place_in_role(int rank) const noexcept {
    const RankInfo& self = ranks[static_cast<std::size_t>(rank)];
    return static_cast<int>(std::ranges::count_if(ranks, [&](const RankInfo& other) {
        return other.node == self.node && other.role == self.role && other.rank < self.rank;
    }));
}

std::vector<std::string> RankMap::facts() const {
    std::vector<std::string> lines;
    for (int node = 0; node < nodes(); ++node) {
        const std::vector<int> here = on_node(node);
        std::string line = ranks[static_cast<std::size_t>(here.front())].host + ": ";
        for (std::size_t i = 0; i < here.size();) {
            const RankInfo& first = ranks[static_cast<std::size_t>(here[i])];
            std::size_t end = i + 1;
            while (end < here.size() && here[end] == here[end - 1] + 1) {
                const RankInfo& next = ranks[static_cast<std::size_t>(here[end])];
                if (next.role != first.role || next.cores != first.cores ||
                    next.device != first.device) {
                    break;
                }
                ++end;
            }
            line += (i > 0 ? "; " : "") + run_text(*this, here[i], here[end - 1]);
            i = end;
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

bool shares_gpus(std::string_view option) noexcept {
    return option == "auto" || option == "cuda";
}

int gpus_for(std::string_view option) {
    if (!shares_gpus(option)) {
        return 0;
    }
    return option == "auto" ? usable_gpus().count : cuda_status().device_count;
}

std::string device_of_rank(std::string_view option, const RankMap& map, int rank, int gpus) {
    if (!shares_gpus(option)) {
        return std::string(option);
    }
    if (gpus == 0) {
        return option == "auto" ? "cpu" : "cuda:0";  // whose absence is an error with its reason
    }
    return fmt::format("cuda:{}", map.place_in_role(rank) % gpus);
}

}  // namespace cohort
