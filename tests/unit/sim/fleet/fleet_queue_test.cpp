// Who waits, who starts and where: compared with all that could happen in small cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sim/fleet/fleet_queue.hpp"

namespace cohort {
namespace {

/// After how many ends of running jobs, in this order, the head has its devices.
std::size_t start_of_head(int free, int head, const std::vector<int>& ends) {
    std::size_t count = 0;
    while (free < head && count < ends.size()) {
        free += ends[count++];
    }
    return free >= head ? count : ends.size() + 1;
}

TEST(FleetQueue, AJobOvertakesExactlyWhenItDoesNotDelayTheHeadEvenIfItNeverEnds) {
    std::mt19937 random(5);
    const auto draw = [&](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int allowed = 0;
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        const int free = draw(0, 6);
        std::vector<int> running(static_cast<std::size_t>(draw(1, 5)));
        std::ranges::generate(running, [&] { return 1 << draw(0, 3); });
        const int devices = std::accumulate(running.begin(), running.end(), free);
        const int head = draw(std::min(free + 1, devices), devices);
        const int candidate = draw(1, 4);
        if (head <= free) {
            continue;
        }
        const bool may = may_overtake(free, head, candidate, running);
        const bool delays =
            start_of_head(free, head, running) != start_of_head(free - candidate, head, running);
        EXPECT_EQ(may, candidate <= free && !delays) << free << ' ' << head << ' ' << candidate;
        (may ? allowed : refused) += 1;
    }
    EXPECT_GT(allowed, 100);
    EXPECT_GT(refused, 100);
}

/// All jobs that may start now; running jobs are expected to end in the order of their numbers.
std::vector<FleetQueue::Start> start_all(FleetQueue& queue) {
    std::vector<FleetQueue::Start> started;
    while (auto next = queue.next([](int job) { return static_cast<double>(job); })) {
        started.push_back(*std::move(next));
    }
    return started;
}

TEST(FleetQueue, FirstComeFirstServedUnlessTheHeadCannotUseTheDevices) {
    FleetQueue queue(2, 4);
    queue.submit(1, 4);
    ASSERT_EQ(start_all(queue).size(), 1U);
    queue.submit(2, 8);  // waits for job 1
    queue.submit(3, 4);  // would hold what job 2 needs
    EXPECT_TRUE(start_all(queue).empty());
    EXPECT_EQ(queue.waiting(), 2U);
    queue.finish(1);
    const auto started = start_all(queue);
    ASSERT_EQ(started.size(), 1U);
    EXPECT_EQ(started[0].job, 2);
    queue.finish(2);
    EXPECT_EQ(start_all(queue).at(0).job, 3);
}

TEST(FleetQueue, AJobFillsDevicesThatTheHeadCannotUse) {
    FleetQueue queue(2, 8);
    queue.submit(1, 12);
    ASSERT_EQ(start_all(queue).size(), 1U);
    queue.submit(2, 8);  // needs 4 more, and gets 12 at once
    queue.submit(3, 4);
    queue.submit(4, 1);
    const auto started = start_all(queue);
    ASSERT_EQ(started.size(), 1U);
    EXPECT_EQ(started[0].job, 3);
}

TEST(FleetQueue, WhoIsExpectedToEndFirstDecidesWhatTheHeadCannotUse) {
    for (const int first : {1, 2}) {
        FleetQueue queue(4, 4);
        queue.submit(1, 4);
        queue.submit(2, 8);
        ASSERT_EQ(start_all(queue).size(), 2U);
        queue.submit(3, 8);  // needs 4 more: all of job 1, or half of job 2
        queue.submit(4, 4);
        const auto next = queue.next([&](int job) { return job == first ? 1.0 : 2.0; });
        EXPECT_EQ(next.has_value(), first == 2);
    }
}

/// Any course of arrivals and ends: no device is held twice, none is lost, and each job starts on
/// as few nodes as can be.
TEST(FleetQueue, HoldsEachDeviceOnce) {
    std::mt19937 random(7);
    const auto draw = [&](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    constexpr int kNodes = 4;
    constexpr int kDevices = 3;
    FleetQueue queue(kNodes, kDevices);
    std::map<int, std::vector<int>> running;
    std::array<int, kNodes> held{};
    std::size_t begun = 0;
    for (int job = 0; job < 2000; ++job) {
        if (!running.empty() && draw(0, 2) > 0) {
            auto over = running.begin();
            std::advance(over, draw(0, static_cast<int>(running.size()) - 1));
            for (const int node : over->second) {
                --held[static_cast<std::size_t>(node)];
            }
            queue.finish(over->first);
            running.erase(over);
        }
        queue.submit(job, draw(1, kNodes * kDevices));
        while (true) {
            const std::array<int, kNodes> before = held;
            const auto next = queue.next([](int) { return 1.0; });
            if (!next) {
                break;
            }
            ++begun;
            std::array<int, kNodes> free{};
            for (std::size_t node = 0; node < free.size(); ++node) {
                free[node] = kDevices - before[node];
            }
            std::ranges::sort(free, std::ranges::greater());
            auto left = static_cast<int>(next->worker_nodes.size());
            std::size_t fewest = 0;
            while (left > 0) {
                left -= free[fewest++];
            }
            EXPECT_EQ(std::set(next->worker_nodes.begin(), next->worker_nodes.end()).size(),
                      fewest);
            EXPECT_TRUE(std::ranges::is_sorted(next->worker_nodes));
            for (const int node : next->worker_nodes) {
                EXPECT_LE(++held[static_cast<std::size_t>(node)], kDevices);
            }
            running[next->job] = next->worker_nodes;
        }
    }
    EXPECT_GT(begun, 500U);
    while (!running.empty()) {
        queue.finish(running.begin()->first);
        running.erase(running.begin());
        while (const auto next = queue.next([](int) { return 1.0; })) {
            running[next->job] = next->worker_nodes;
        }
    }
    EXPECT_EQ(queue.waiting(), 0U);
    queue.submit(2000, kNodes * kDevices);
    EXPECT_TRUE(queue.next([](int) { return 1.0; })) << "all devices are back";
}

TEST(FleetPlacement, WorkersGoToTheEmptiestNode) {
    const std::vector<int> free{2, 4, 3, 4};
    EXPECT_EQ(place_workers(2, free), (std::vector<int>{1, 1}));
    EXPECT_EQ(place_workers(5, free), (std::vector<int>{1, 1, 1, 1, 3}));
    EXPECT_EQ(place_workers(13, free), (std::vector<int>{0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3}));
}

}  // namespace
TEST(FleetQueue, LostDevicesAreNotLentAndJobsThatNeedThemAreGivenUp) {
    FleetQueue queue(2, 2);
    const auto left = [](int) { return 1.0; };
    queue.submit(0, 2);
    queue.submit(1, 4);
    queue.submit(2, 2);
    EXPECT_EQ(queue.next(left)->worker_nodes, (std::vector<int>{0, 0}));
    queue.finish(0);
    queue.lose(0);
    EXPECT_EQ(queue.devices(), 3);
    EXPECT_EQ(queue.give_up(), (std::vector<int>{1}));
    EXPECT_EQ(queue.next(left)->worker_nodes, (std::vector<int>{1, 1}));
    EXPECT_FALSE(queue.next(left));
    EXPECT_TRUE(queue.give_up().empty());
}

}  // namespace cohort
