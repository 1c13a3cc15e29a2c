// Random plans and all modes under random arrivals, losses, joins, idle times and installs, against
// a model that knows only what executors know: the effects. With an argument, that many thousand
// events each:
//   sched_engine_random_test 20000
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/sched/random_run.hpp"

namespace cohort {
namespace {

using test::RandomRun;

int thousand_events = 6000;

struct Totals {
    std::int64_t pushes = 0;
    std::int64_t admitted = 0;
    std::int64_t decisions = 0;
};

void run_schedules(RandomRun::Plans plans, Totals& totals) {
    const std::int64_t events = 1000LL * thousand_events;
    constexpr std::int64_t kPerRun = 5000;
    for (std::int64_t run = 0; run < events / kPerRun; ++run) {
        const int workers = 1 + static_cast<int>(run % 9);
        RandomRun schedule(static_cast<std::uint64_t>(run), workers, plans);
        for (std::int64_t i = 0; i < kPerRun; ++i) {
            schedule.step();
            if (testing::Test::HasFailure()) {
                FAIL() << "run " << run << ", event " << i;
            }
        }
        schedule.finish();
        totals.pushes += schedule.pushes();
        totals.admitted += schedule.admitted();
        totals.decisions += schedule.decisions();
    }
    EXPECT_GT(totals.pushes, events / 8) << "the schedules say little";
}

TEST(RandomSchedules, OfAnyPlansNothingIsLostNobodyHangs) {
    Totals totals;
    run_schedules(RandomRun::Plans::kPlans, totals);
}

TEST(RandomSchedules, OfAllModesAndTheirPoliciesNothingIsLostNobodyHangs) {
    Totals totals;
    run_schedules(RandomRun::Plans::kModes, totals);
    EXPECT_GT(totals.admitted, totals.pushes / 10'000) << "the rule of progress was not met";
    EXPECT_GT(totals.decisions, totals.pushes / 1000) << "policies decided little";
}

}  // namespace
}  // namespace cohort

int main(int count, char** arguments) {
    testing::InitGoogleTest(&count, arguments);
    if (count > 1) {
        cohort::thousand_events = std::max(5, std::atoi(arguments[1]));
    }
    return RUN_ALL_TESTS();
}
