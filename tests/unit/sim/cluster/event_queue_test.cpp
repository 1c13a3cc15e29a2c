// The virtual clock: order, cancelling, settling.
#include "sim/cluster/event_queue.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cohort {
namespace {

TEST(EventQueueTest, HappensInOrderOfTimeThenOfAsking) {
    EventQueue queue;
    std::vector<int> seen;
    queue.at(2, [&] { seen.push_back(20); });
    queue.at(1, [&] {
        seen.push_back(10);
        queue.after(0, [&] { seen.push_back(12); });
        queue.after(1, [&] { seen.push_back(22); });
    });
    queue.at(1, [&] { seen.push_back(11); });
    queue.at(2, [&] { seen.push_back(21); });
    while (queue.step()) {
    }
    EXPECT_EQ(seen, (std::vector<int>{10, 11, 12, 20, 21, 22}));
    EXPECT_EQ(queue.now(), 2);
    EXPECT_EQ(queue.events(), 6U);
}

TEST(EventQueueTest, RefusesThePastAndWhatIsNoTime) {
    EventQueue queue;
    queue.at(3, [] {});
    queue.step();
    EXPECT_THROW(queue.at(2.9, [] {}), std::logic_error);
    EXPECT_THROW(queue.at(std::nan(""), [] {}), std::logic_error);
    EXPECT_THROW(queue.at(std::numeric_limits<double>::infinity(), [] {}), std::logic_error);
}

TEST(EventQueueTest, CancelsOnceAndOnlyItsOwn) {
    EventQueue queue;
    int happened = 0;
    const EventQueue::Id first = queue.at(1, [&] { happened += 1; });
    queue.cancel(first);
    queue.cancel(first);
    const EventQueue::Id second = queue.at(1, [&] { happened += 10; });
    EXPECT_NE(first, second);
    queue.cancel(first);  // the slot is in use again, the id is not
    queue.cancel(0);
    EventQueue::Id third = 0;
    queue.at(2, [&] { queue.cancel(third); });
    third = queue.at(2, [&] { happened += 100; });
    while (queue.step()) {
    }
    EXPECT_EQ(happened, 10);
    queue.cancel(second);
    EXPECT_FALSE(queue.step());
}

TEST(EventQueueTest, SettlesOnceAfterAllEventsOfAMoment) {
    EventQueue queue;
    std::vector<std::pair<double, char>> seen;
    const auto settle = [&] {
        seen.emplace_back(queue.now(), 's');
        if (queue.now() == 1 && seen.size() < 4) {
            queue.after(0, [&] { seen.emplace_back(queue.now(), 'n'); });
            queue.settle_with([&] { seen.emplace_back(queue.now(), 't'); });
        }
    };
    queue.at(1, [&] {
        seen.emplace_back(queue.now(), 'a');
        queue.settle_with(settle);
    });
    queue.at(1, [&] { seen.emplace_back(queue.now(), 'b'); });
    queue.at(2, [&] { seen.emplace_back(queue.now(), 'c'); });
    while (queue.step()) {
    }
    const std::vector<std::pair<double, char>> expected = {{1, 'a'}, {1, 'b'}, {1, 's'},
                                                           {1, 'n'}, {1, 't'}, {2, 'c'}};
    EXPECT_EQ(seen, expected);
}

TEST(EventQueueTest, SettlesWhenNothingElseIsLeft) {
    EventQueue queue;
    bool happened = false;
    queue.settle_with([&] { queue.after(5, [&] { happened = true; }); });
    EXPECT_TRUE(queue.step());
    EXPECT_TRUE(happened);
    EXPECT_EQ(queue.now(), 5);
    EXPECT_FALSE(queue.step());
}

// Against a sorted map: random times (many equal), cancels of what waits and of what is over.
TEST(EventQueueTest, AgreesWithASortedMap) {
    std::mt19937_64 random(7);
    EventQueue queue;
    std::map<std::pair<double, int>, EventQueue::Id> waiting;
    std::vector<int> seen;
    std::vector<int> expected;
    std::vector<EventQueue::Id> over;
    for (int i = 0; i < 20000; ++i) {
        const auto what = random() % 8;
        if (what < 4) {
            const double time = queue.now() + static_cast<double>(random() % 16);
            waiting[{time, i}] = queue.at(time, [&seen, i] { seen.push_back(i); });
        } else if (what < 6 && !waiting.empty()) {
            auto it = waiting.lower_bound({queue.now() + static_cast<double>(random() % 16), 0});
            if (it == waiting.end()) {
                it = waiting.begin();
            }
            queue.cancel(it->second);
            over.push_back(it->second);
            waiting.erase(it);
        } else if (what == 6 && !over.empty()) {
            queue.cancel(over[random() % over.size()]);
        } else if (!waiting.empty()) {
            const auto it = waiting.begin();
            ASSERT_TRUE(queue.step());
            ASSERT_EQ(queue.now(), it->first.first);
            expected.push_back(it->first.second);
            over.push_back(it->second);
            waiting.erase(it);
        }
    }
    for (const auto& [at, id] : waiting) {
        expected.push_back(at.second);
    }
    while (queue.step()) {
    }
    EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace cohort
