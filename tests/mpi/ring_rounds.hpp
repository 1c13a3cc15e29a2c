#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "support/comm/mpi_test.hpp"

namespace cohort {

inline std::vector<int> all_ranks() {
    std::vector<int> ranks(static_cast<std::size_t>(test_world().size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// Small integers: every order of sums is exact. Differs by rank, place and round.
inline float exact_value(int rank, std::int64_t index, std::uint64_t round) {
    return static_cast<float>((static_cast<std::int64_t>(round) * 7 + rank * 13 + index * 3) % 101 -
                              50);
}

/// Not exact: the order of sums shows in the last bits.
inline float rough_value(int rank, std::int64_t index, std::uint64_t round) {
    std::minstd_rand random(static_cast<unsigned>(index * 31 + rank * 7 + 1) +
                            static_cast<unsigned>(round) * 1009U);
    random.discard(2);
    return std::ldexp(static_cast<float>(random()) / 2.1e9F - 0.5F, static_cast<int>(index % 17));
}

using Values = float (*)(int rank, std::int64_t index, std::uint64_t round);

/// ((x_0 + x_1) + x_2) + ... over the members.
inline std::vector<float> serial_sum(const std::vector<int>& members, std::int64_t floats,
                                     std::uint64_t round, Values values) {
    std::vector<float> sum(static_cast<std::size_t>(floats));
    for (std::int64_t i = 0; i < floats; ++i) {
        float total = values(members[0], i, round);
        for (std::size_t j = 1; j < members.size(); ++j) {
            total += values(members[j], i, round);
        }
        sum[static_cast<std::size_t>(i)] = total;
    }
    return sum;
}

/// Tells the exchange about the buffer in pieces, in an order that `seed` picks.
inline void ready_in_pieces(AllReduce& ring, std::int64_t floats, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> cuts{0, floats};
    for (int i = 0; i < 6; ++i) {
        cuts.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(floats + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> order(cuts.size() - 1);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t piece : order) {
        ring.ready(cuts[piece], cuts[piece + 1]);
    }
}

/// What members of these tests say at the end of a round.
struct TestSummary {
    std::int64_t number = 0;
    double fraction = 0;
};

inline SummaryBytes own_summary(std::uint64_t round) {
    return pack_summary(
        TestSummary{.number = test_world().rank() + 10 * static_cast<std::int64_t>(round),
                    .fraction = test_world().rank() * 0.5});
}

/// One round; the buffer afterwards.
inline std::vector<float> run_round(AllReduce& ring, std::uint64_t round, Values values,
                                    bool in_pieces, std::vector<TestSummary>* summaries = nullptr) {
    const std::span<float> buffer = ring.begin(round);
    const auto floats = static_cast<std::int64_t>(buffer.size());
    for (std::int64_t i = 0; i < floats; ++i) {
        buffer[static_cast<std::size_t>(i)] = values(test_world().rank(), i, round);
    }
    if (in_pieces) {
        ready_in_pieces(
            ring, floats,
            static_cast<unsigned>(round) * 31U + static_cast<unsigned>(test_world().rank()));
    }
    ring.finish(own_summary(round));
    const auto all = unpack_summaries<TestSummary>(ring.wait()).value();
    if (summaries != nullptr) {
        *summaries = all;
    }
    return {buffer.begin(), buffer.end()};
}

/// How the ranks are treated as lying on nodes.
struct Placement {
    const char* name;
    std::vector<int> (*nodes)(std::size_t members);
};

inline const std::vector<Placement>& placements() {
    static const std::vector<Placement> all{
        {"as they lie", [](std::size_t) { return std::vector<int>{}; }},
        {"each alone",
         [](std::size_t n) {
             std::vector<int> nodes(n);
             std::iota(nodes.begin(), nodes.end(), 0);
             return nodes;
         }},
        {"halves",
         [](std::size_t n) {
             std::vector<int> nodes(n);
             for (std::size_t i = 0; i < n; ++i) {
                 nodes[i] = i < (n + 1) / 2 ? 0 : 1;
             }
             return nodes;
         }},
        {"alternating",
         [](std::size_t n) {
             std::vector<int> nodes(n);
             for (std::size_t i = 0; i < n; ++i) {
                 nodes[i] = static_cast<int>(i % 2);
             }
             return nodes;
         }},
        {"first alone", [](std::size_t n) {
             std::vector<int> nodes(n, 1);
             nodes[0] = 0;
             return nodes;
         }}};
    return all;
}

}  // namespace cohort
