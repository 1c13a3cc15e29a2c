// Where a worker of servers spends its time, and what the record of an iteration makes of it.
#include <gtest/gtest.h>

#include "cohort/core/clock.hpp"
#include "train/coordinator/update_driver.hpp"
#include "train/worker/servers/worker_times.hpp"

namespace cohort {
namespace {

class Times : public testing::Test {
protected:
    void pass(double seconds) { clock_.advance(Clock::Seconds(seconds)); }
    /// An iteration from the end of backward before it to its own.
    /// @param released_s  until the parameters it is released with are announced
    WorkerTimes iterate(double released_s, double buffer_s = 0) {
        pass(released_s + kPull);
        times_.parameters(kPull);
        pass(kLease);
        times_.leased();
        pass(kInput);
        times_.loaded();
        pass(buffer_s);
        times_.placed();
        times_.begin();
        pass(kCompute);
        times_.computed(kCompute / 2);
        return times_.times();
    }
    static IterationRecord record(const WorkerTimes& times, const PushSending& sending) {
        return record_of({.ticket = {.samples = 32}, .times = times}, sending, 100);
    }

    static constexpr double kPull = 0.25;
    static constexpr double kLease = 0.5;
    static constexpr double kInput = 0.125;
    static constexpr double kCompute = 2;
    VirtualClock clock_;
    IterationTimes times_{clock_};
};

TEST_F(Times, OwnTimeAndWaitingMakeThePeriod) {
    // The gradient's rest takes 1 s after backward, whatever happens beside it.
    const WorkerTimes times = iterate(3, 0.0625);
    const IterationRecord one = record(times, {.seconds = 1, .before_s = 1, .bytes = 200});
    EXPECT_DOUBLE_EQ(one.input_s, kInput) << "neither lease nor buffer";
    EXPECT_DOUBLE_EQ(one.compute_s, kCompute);
    EXPECT_DOUBLE_EQ(one.push_s, 1 + 0.0625) << "waiting for a free buffer";
    EXPECT_DOUBLE_EQ(one.pull_s, kPull);
    EXPECT_DOUBLE_EQ(one.wait_s, 3 - 1 + kLease) << "without the push before";
    EXPECT_DOUBLE_EQ(one.own_s() + one.wait_s, clock_.now().count());
    EXPECT_DOUBLE_EQ(one.use.tx_bytes_s, 200 / (kCompute / 2 + 1));
    EXPECT_DOUBLE_EQ(one.use.rx_bytes_s, 100 / kPull);
}

TEST_F(Times, APushThatLeavesBesideWhatComesNextIsCountedOnce) {
    const double begun_s = clock_.now().count();
    // Released at once; the push before leaves 1 s long, and the buffer is free no sooner.
    const double idle_s = kLease;
    const IterationRecord one =
        record(iterate(0, 1 - idle_s), {.seconds = 1, .before_s = 1, .bytes = 1});
    EXPECT_EQ(one.wait_s, 0);
    EXPECT_DOUBLE_EQ(one.push_s, 1);
    EXPECT_DOUBLE_EQ(one.own_s() + one.wait_s, clock_.now().count() - begun_s);
}

TEST_F(Times, AMiniBatchThatComesBackWasWaiting) {
    pass(1);
    times_.parameters(kPull);
    pass(kInput);
    times_.loaded();
    times_.dropped();
    times_.leased();
    pass(kInput);
    times_.loaded();
    times_.placed();
    times_.begin();
    EXPECT_DOUBLE_EQ(times_.times().input_s, kInput);
    EXPECT_DOUBLE_EQ(times_.times().lease_s, kInput);
}

}  // namespace
}  // namespace cohort
