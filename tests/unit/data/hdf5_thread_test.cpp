#include "cohort/data/hdf5_thread.hpp"
#include "cohort/core/error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cohort {
namespace {

/// Holds the HDF5 thread until release(), so that jobs queue up behind it.
class Gate {
public:
    explicit Gate(Hdf5Thread& thread)
        : done_(thread.post([opened = opened_.get_future().share()] { opened.wait(); },
                            Hdf5Priority::kInput)) {}
    void release() {
        opened_.set_value();
        done_.get();
    }

private:
    std::promise<void> opened_;
    std::future<void> done_;
};

TEST(Hdf5ThreadTest, RunsJobsOnOneOtherThread) {
    Hdf5Thread thread;
    const auto id = [] { return std::this_thread::get_id(); };
    EXPECT_NE(thread.run(id), std::this_thread::get_id());
    EXPECT_EQ(thread.run(id), thread.post(id).get());
    EXPECT_FALSE(thread.is_current());
    EXPECT_TRUE(thread.run([&] { return thread.is_current(); }));
}

TEST(Hdf5ThreadTest, RethrowsToTheCaller) {
    Hdf5Thread thread;
    EXPECT_THROW(thread.run([] { fail<FileError>({.what = "x"}); }), FileError);
    auto later = thread.post([]() -> int { throw std::out_of_range("y"); });
    EXPECT_THROW(later.get(), std::out_of_range);
    EXPECT_EQ(thread.run([] { return 5; }), 5) << "the thread lives on";
}

TEST(Hdf5ThreadTest, AJobMayRunAnother) {
    Hdf5Thread thread;
    EXPECT_EQ(thread.run([&] { return thread.run([] { return 7; }); }), 7);
}

TEST(Hdf5ThreadTest, InputOvertakesBackgroundAndKeepsItsOrder) {
    Hdf5Thread thread;
    Gate gate(thread);
    std::vector<int> order;
    const auto note = [&](int value) { return [&order, value] { order.push_back(value); }; };
    (void)thread.post(note(100), Hdf5Priority::kBackground);
    (void)thread.post(note(101), Hdf5Priority::kBackground);
    (void)thread.post(note(1), Hdf5Priority::kInput);
    (void)thread.post(note(2), Hdf5Priority::kInput);
    gate.release();
    thread.run([] {}, Hdf5Priority::kBackground);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 100, 101}));
}

TEST(Hdf5ThreadTest, BackgroundDoesNotStarve) {
    Hdf5Thread thread;
    Gate gate(thread);
    std::vector<int> order;
    (void)thread.post([&] { order.push_back(-1); }, Hdf5Priority::kBackground);
    for (int i = 0; i < 50; ++i) {
        (void)thread.post([&order, i] { order.push_back(i); }, Hdf5Priority::kInput);
    }
    gate.release();
    thread.run([] {}, Hdf5Priority::kInput);
    const auto turn = std::find(order.begin(), order.end(), -1) - order.begin();
    EXPECT_GT(turn, 0);
    EXPECT_LT(turn, 20);
}

TEST(Hdf5ThreadTest, EndsAfterAllPostedJobs) {
    int done = 0;
    {
        Hdf5Thread thread;
        for (int i = 0; i < 100; ++i) {
            (void)thread.post([&] { ++done; });
        }
    }
    EXPECT_EQ(done, 100);
}

TEST(Hdf5ThreadTest, ThereIsOnlyOneWhateverObjectsThereAre) {
    const auto id = [] { return std::this_thread::get_id(); };
    Hdf5Thread thread;
    {
        Hdf5Thread other;
        EXPECT_EQ(other.run(id), thread.run(id));
        EXPECT_EQ(other.run([&] { return thread.run([] { return 7; }); }), 7);
    }
    EXPECT_EQ(thread.run([] { return 5; }), 5) << "it ends with the last object";
}

}  // namespace
}  // namespace cohort
