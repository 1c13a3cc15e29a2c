// Refinement of the predictor's model beside a run: it follows a load that has changed, its thread
// keeps to its share of a core and ends when it is told to.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cohort/core/clock.hpp"
#include "support/sched/hog_series.hpp"
#include "support/train/predictor_error.hpp"
#include "train/coordinator/modes/predictor_refinement.hpp"
#include "train/coordinator/modes/predictor_refiner.hpp"

namespace cohort::test {
namespace {

constexpr int kWorkers = 4;
const Hog kKnown{};
const Hog kChanged{.on = 6, .off = 7, .slower = 1.8};

const LstmModel& known_model() {
    static const LstmModel model =
        train_predictor(hog_series_of(kKnown, 8, 420, 1), {.epochs = 12, .batch = 16, .lr = 3e-3});
    return model;
}

/// Records of all workers, iteration by iteration.
class Workers {
public:
    explicit Workers(const Hog& hog, int records) {
        for (int worker = 0; worker < kWorkers; ++worker) {
            records_.push_back(hog_records(hog, worker, records, 5));
        }
    }
    /// f(record) for the next iteration of everyone
    template <class F>
    void next(F&& f) {
        for (const std::vector<IterationRecord>& worker : records_) {
            f(worker.at(at_ % worker.size()));
        }
        ++at_;
    }

private:
    std::vector<std::vector<IterationRecord>> records_;
    std::size_t at_ = 0;
};

TEST(PredictorRefinement, FollowsALoadThatHasChanged) {
    PredictorRefinement refinement(known_model(), kWorkers, kHogBatch);
    Workers workers(kChanged, 700);
    for (int iteration = 0; iteration < 700; ++iteration) {
        workers.next([&](const IterationRecord& record) { refinement.add(record); });
        while (refinement.work()) {
        }
    }
    const std::vector<PredictorSeries> unseen = hog_series_of(kChanged, 4, 420, 9);
    const PredictorError before = test::predictor_error(known_model(), unseen);
    const PredictorError after = test::predictor_error(*refinement.model(), unseen);
    RecordProperty("before", std::to_string(before.time));
    RecordProperty("after", std::to_string(after.time));
    EXPECT_LT(after.time, 0.6 * before.time);
    EXPECT_LT(after.all, 0.6 * before.all);
    EXPECT_EQ(refinement.model()->feature_mean, known_model().feature_mean);
}

TEST(PredictorRefinement, WaitsForWindowsAndFreshRecords) {
    PredictorRefinement refinement(known_model(), kWorkers, kHogBatch);
    Workers workers(kKnown, 400);
    const auto pieces_after = [&](int iterations) {
        for (int i = 0; i < iterations; ++i) {
            workers.next([&](const IterationRecord& record) { refinement.add(record); });
        }
        int pieces = 0;
        while (refinement.work()) {
            ++pieces;
        }
        return pieces;
    };
    EXPECT_EQ(pieces_after(LstmModel::kWindow), 0);
    EXPECT_EQ(pieces_after(1), 1 + PredictorRefinement::kSteps);
    EXPECT_EQ(pieces_after(PredictorRefinement::kFresh - 1), 0);
    EXPECT_EQ(pieces_after(1), 1 + PredictorRefinement::kSteps);
    EXPECT_EQ(refinement.steps(), 2 * PredictorRefinement::kSteps);
    for (int worker = 0; worker < kWorkers; ++worker) {
        refinement.forget(worker);
    }
    EXPECT_EQ(pieces_after(LstmModel::kWindow), 0);
    EXPECT_EQ(pieces_after(1), 1 + PredictorRefinement::kSteps);
}

/// Steps learn from records that come between them: only those after the last one are unseen.
TEST(PredictorRefinement, JudgesOnRecordsThatCameAfterTheLastStep) {
    PredictorRefinement refinement(known_model(), kWorkers, kHogBatch);
    Workers workers(kKnown, 400);
    const auto records = [&](int iterations) {
        for (int i = 0; i < iterations; ++i) {
            workers.next([&](const IterationRecord& record) { refinement.add(record); });
        }
    };
    records(LstmModel::kWindow + 1);
    EXPECT_TRUE(refinement.work()) << "the first judgement, of nothing";
    for (int step = 0; step < PredictorRefinement::kSteps; ++step) {
        EXPECT_TRUE(refinement.work());
        EXPECT_EQ(refinement.steps(), step + 1)
            << "no judgement goes before the steps that are left";
        if (step + 1 < PredictorRefinement::kSteps) {
            records(PredictorRefinement::kFresh);
        }
    }
    records(PredictorRefinement::kFresh - 1);
    EXPECT_FALSE(refinement.work()) << "those before may have been learned from";
    records(1);
    EXPECT_TRUE(refinement.work());
    EXPECT_EQ(refinement.steps(), PredictorRefinement::kSteps) << "a judgement";
    EXPECT_TRUE(refinement.work());
    EXPECT_EQ(refinement.steps(), PredictorRefinement::kSteps + 1);
}

TEST(PredictorRefinement, KeepsItsModelWhenNothingBetterIsFound) {
    // What it was trained with, learned well: a judgement may not swap it for noise.
    PredictorRefinement refinement(known_model(), kWorkers, kHogBatch);
    Workers workers(kKnown, 600);
    for (int iteration = 0; iteration < 600; ++iteration) {
        workers.next([&](const IterationRecord& record) { refinement.add(record); });
        while (refinement.work()) {
        }
    }
    const std::vector<PredictorSeries> unseen = hog_series_of(kKnown, 4, 420, 9);
    EXPECT_LT(test::predictor_error(*refinement.model(), unseen).all,
              1.1 * test::predictor_error(known_model(), unseen).all);
}

TEST(PredictorRefiner, EndsInTheMiddleOfAPause) {
    // A millionth of a core: after its first piece of work it would pause for hours.
    PredictorRefiner refiner(known_model(), kWorkers, kHogBatch, 1e-6);
    while (refiner.use().cpu_s == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

TEST(PredictorRefiner, EndsBeforeItHasBegun) {
    const PredictorRefiner refiner(known_model(), kWorkers, kHogBatch, 1e-6);
}

TEST(PredictorRefiner, KeepsToItsShareOfACore) {
    constexpr double kShare = 0.1;
    const SteadyClock clock;
    const auto start = clock.now();
    PredictorRefiner refiner(known_model(), kWorkers, kHogBatch, kShare);
    Workers workers(kChanged, 400);
    for (int i = 0; i < 300; ++i) {
        workers.next([&](const IterationRecord& record) { refiner.add(record); });
    }
    while (refiner.use().steps < 12) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // Every piece of work is followed by its pause, the last one aside.
    EXPECT_LT(refiner.use().cpu_s, 2 * kShare * (clock.now() - start).count());
    EXPECT_GT(refiner.use().cpu_s, 0);
}

TEST(PredictorRefiner, HandsOverWhatIsBetter) {
    PredictorRefiner refiner(known_model(), kWorkers, kHogBatch, 1);
    Workers workers(kChanged, 4000);
    std::shared_ptr<const LstmNetwork> renewed;
    for (std::int64_t steps = -1; renewed == nullptr; renewed = refiner.take()) {
        const std::int64_t now = refiner.use().steps;
        if (now == steps) {  // it has done what it could with the records so far
            workers.next([&](const IterationRecord& record) { refiner.add(record); });
        }
        steps = now;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    EXPECT_GE(refiner.use().renewals, 1);
    LstmState state;
    const LstmFeatures features{};
    const LstmNetwork known(known_model());
    LstmState known_state;
    EXPECT_NE(renewed->step(features, state), known.step(features, known_state));
}

}  // namespace
}  // namespace cohort::test
