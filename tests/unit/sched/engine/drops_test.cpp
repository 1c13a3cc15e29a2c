// When numbers that are not finite end a run.
#include "cohort/sched/drop_record.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(DropRecord, FiveInARowAreDivergence) {
    DropRecord drops;
    std::int64_t updates = 10;
    for (int i = 0; i < 4; ++i) {
        drops.dropped(updates);
        EXPECT_FALSE(drops.diverged(updates)) << i;
    }
    drops.updated();
    ++updates;
    drops.dropped(updates);
    EXPECT_EQ(drops.in_a_row, 1);
    EXPECT_FALSE(drops.diverged(updates));
    for (int i = 0; i < 4; ++i) {
        drops.dropped(updates);
    }
    EXPECT_TRUE(drops.diverged(updates));
    EXPECT_EQ(drops.total, 9);
    EXPECT_EQ(drops.steps(updates), 20);
}

TEST(DropRecord, TwentyOfTheLastHundredStepsAreToo) {
    DropRecord drops;
    std::int64_t updates = 0;
    for (int i = 0; i < 19; ++i) {
        drops.dropped(updates);
        drops.updated();
        ++updates;
        EXPECT_FALSE(drops.diverged(updates)) << i;
    }
    DropRecord soon = drops;
    soon.dropped(updates);
    EXPECT_TRUE(soon.diverged(updates));
    // One step in five: after 62 more updates the oldest is the hundredth step from the end.
    updates += 62;
    DropRecord late = drops;
    late.dropped(updates);
    EXPECT_EQ(late.in_window(updates), 19) << "the first one is forgotten";
    EXPECT_FALSE(late.diverged(updates));
    EXPECT_EQ(late.recent.size(), 19U);
}

}  // namespace
}  // namespace cohort
