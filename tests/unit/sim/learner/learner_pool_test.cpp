// Threads that compute what a virtual run asks for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "cohort/model/zoo.hpp"
#include "sim/learner/learner_pool.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

Graph any_graph() {
    return make_model("softmax", Shape{1, 2, 2}, 2);
}

/// Calls a function for every part; done after `parts` of them.
class Call final : public LearnerTask {
public:
    explicit Call(std::function<void()> what, int parts = 1)
        : what_(std::move(what)), left_(parts) {}
    bool run(LearnerEngine& /*engine*/) override {
        what_();
        return --left_ == 0;
    }

private:
    std::function<void()> what_;
    std::atomic<int> left_;
};

/// Holds a thread of a pool until it is told to go on.
class Hold {
public:
    explicit Hold(LearnerPool& pool)
        : pool_(pool), task_(std::make_shared<Call>([this] {
              held_ = true;
              held_.notify_all();
              go_.wait(false);
          })) {
        pool.submit(task_);
        held_.wait(false);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
        release();
        pool_.wait(task_);
    }
    void release() {
        go_ = true;
        go_.notify_all();
    }

private:
    std::atomic<bool> held_{false};
    std::atomic<bool> go_{false};
    LearnerPool& pool_;
    LearnerPool::Task task_;
};

TEST(SampleMemory, PartsOfBatchesOfTokensKeepEachTokenWithItsLabels) {
    SampleSetInfo info = test::set_info({3}, SampleType::kU16, 20, 8);
    info.classes = 65536;
    test::MemorySource source(info);  // random windows of four tokens
    const SampleMemory memory(source, {});
    const std::vector<std::int64_t> ids{19, 0, 7, 8};
    SampleBatch batch;
    memory.load(ids, 0, batch);
    const BatchView part = batch.part(1, 4);
    EXPECT_EQ(part.size, 3);
    EXPECT_TRUE(batch.samples.empty());
    for (std::size_t i = 0; i < 3; ++i) {
        std::array<std::uint16_t, 4> window{};
        std::memcpy(window.data(), source.sample(ids[i + 1]), sizeof window);
        EXPECT_EQ(part.sample_ids[i], ids[i + 1]);
        for (std::size_t position = 0; position < 3; ++position) {
            EXPECT_EQ(part.tokens[3 * i + position], window[position]);
            EXPECT_EQ(part.labels[3 * i + position], window[position + 1]);
        }
    }
}

TEST(LearnerPool, EveryPartIsDoneOnce) {
    LearnerPool pool(any_graph(), 2);
    for (const bool help : {false, true}) {
        for (const int parts : {1, 2, 3, 100}) {
            std::vector<std::atomic<int>> done(static_cast<std::size_t>(parts));
            pool.run_parts(
                parts,
                [&](int part, LearnerEngine* engine) {
                    ++done[static_cast<std::size_t>(part)];
                    EXPECT_TRUE(help || engine != nullptr);
                },
                help);
            for (const std::atomic<int>& one : done) {
                EXPECT_EQ(one, 1);
            }
        }
    }
}

TEST(LearnerPool, WhoHelpsDoesNotWaitForThreadsThatAreBusy) {
    LearnerPool pool(any_graph(), 2);
    const Hold first(pool);
    const Hold second(pool);
    int done = 0;
    pool.run_parts(
        5,
        [&](int, LearnerEngine* engine) {
            EXPECT_EQ(engine, nullptr);
            ++done;
        },
        true);
    EXPECT_EQ(done, 5);
}

/// The order in which five tasks are done when somebody waits for the fourth.
std::vector<int> order_of_five(LearnerPool& pool) {
    std::vector<int> order;
    std::vector<LearnerPool::Task> tasks;
    tasks.reserve(5);
    for (int i = 0; i < 5; ++i) {
        tasks.push_back(std::make_shared<Call>([&order, i] { order.push_back(i); }));
    }
    {
        Hold hold(pool);
        for (const LearnerPool::Task& task : tasks) {
            pool.submit(task);
        }
        std::thread waiting([&] { pool.wait(tasks[3]); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it asks first, mostly
        hold.release();
        waiting.join();
    }
    for (const LearnerPool::Task& task : tasks) {
        pool.wait(task);
    }
    return order;
}

TEST(LearnerPool, WhatIsWaitedForGoesFirst) {
    LearnerPool pool(any_graph(), 1);
    const std::vector<int> wanted = {3, 0, 1, 2, 4};
    std::vector<int> order;
    for (int i = 0; i < 20 && order != wanted; ++i) {
        order = order_of_five(pool);
    }
    EXPECT_EQ(order, wanted);
}

TEST(LearnerPool, WhatIsDroppedIsNotDone) {
    LearnerPool pool(any_graph(), 1);
    std::atomic<int> done{0};
    const auto dropped = std::make_shared<Call>([&] { ++done; }, 3);
    const auto kept = std::make_shared<Call>([&] { done += 10; });
    {
        const Hold hold(pool);
        pool.submit(dropped, 3);
        pool.submit(kept);
        pool.drop(dropped);
    }
    pool.wait(kept);
    EXPECT_EQ(done, 10);
}

TEST(LearnerPool, AnErrorReachesWhoWaitsAndThePoolGoesOn) {
    LearnerPool pool(any_graph(), 2);
    const auto wrong = std::make_shared<Call>([] { throw std::runtime_error("wrong"); }, 4);
    pool.submit(wrong, 4);
    EXPECT_THROW(pool.wait(wrong), std::runtime_error);
    for (const bool help : {false, true}) {
        EXPECT_THROW(pool.run_parts(
                         8,
                         [](int part, LearnerEngine*) {
                             if (part == 5) {
                                 throw std::runtime_error("part");
                             }
                         },
                         help),
                     std::runtime_error);
    }
    std::atomic<int> done{0};
    const auto right = std::make_shared<Call>([&] { ++done; });
    pool.submit(right);
    pool.wait(right);
    EXPECT_EQ(done, 1);
    EXPECT_GT(pool.core_s(), 0);
}

TEST(LearnerPool, EndsWithoutDoingWhatIsQueued) {
    std::atomic<int> done{0};
    {
        LearnerPool pool(any_graph(), 2);
        for (int i = 0; i < 1000; ++i) {
            pool.submit(std::make_shared<Call>([&] {
                ++done;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }));
        }
    }
    EXPECT_LT(done, 1000);
}

}  // namespace
}  // namespace cohort
