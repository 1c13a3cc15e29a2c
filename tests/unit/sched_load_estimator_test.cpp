// What workers are expected to need, from records of different batches and of a cold start.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "load_estimator.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 64;
constexpr int kWorkers = 4;

/// Workers whose iterations are recorded one after the other.
class Records {
public:
    Records() : history_(kWorkers, kBatch), estimator_(kWorkers, kBatch, 0), live_(kWorkers) {
        std::iota(live_.begin(), live_.end(), 0);
    }

    /// Each worker's next iterations. @param seconds  of a worker's iteration; 0: it is at none
    void iterate(int times, std::int64_t samples, const std::function<double(int)>& seconds) {
        for (int i = 0; i < times; ++i) {
            ++iteration_;
            for (const int worker : live_) {
                if (seconds(worker) > 0) {
                    history_.add({.worker = worker,
                                  .iteration = iteration_,
                                  .samples = samples,
                                  .compute_s = seconds(worker)});
                }
            }
            estimator_.learn(view(), live_);
        }
    }
    /// Of a full batch. @param usual  the mean of dozens of iterations
    [[nodiscard]] double expected_s(int worker, bool usual) const {
        return estimator_.estimate(view(), live_, 1, usual)
            .own_s(static_cast<std::size_t>(worker), kBatch);
    }

private:
    [[nodiscard]] LoadView view() const {
        LoadView view;
        view.history = &history_;
        view.forecast.own_s.resize(kWorkers);
        return view;
    }

    TelemetryHistory history_;
    LoadEstimator estimator_;
    std::vector<int> live_;
    std::int64_t iteration_ = 0;
};

/// An iteration takes 1 s whatever its batch: other batches do not make it look three times as
/// slow, neither now nor on average.
TEST(LoadEstimator, TimesThatDoNotDependOnTheBatchAreNotScaledByIt) {
    Records records;
    const auto second = [](int /*worker*/) { return 1.0; };
    records.iterate(20, kBatch, second);
    records.iterate(20, kBatch / 4, second);
    EXPECT_NEAR(records.expected_s(0, false), 1, 0.1);
    EXPECT_NEAR(records.expected_s(0, true), 1, 0.15);
}

TEST(LoadEstimator, AColdFirstIterationIsNotUsual) {
    Records records;
    records.iterate(1, kBatch, [](int /*worker*/) { return 6.0; });
    records.iterate(10, kBatch, [](int /*worker*/) { return 1.0; });
    EXPECT_NEAR(records.expected_s(0, true), 1, 0.05);
}

/// Who is slow from the beginning brings its first record when others have shown what is cold.
TEST(LoadEstimator, AColdFirstIterationThatIsRecordedLaterIsNotUsualEither) {
    Records records;
    const auto but_last = [](double seconds) {
        return [=](int worker) { return worker == kWorkers - 1 ? 0 : seconds; };
    };
    records.iterate(1, kBatch, but_last(6));
    records.iterate(4, kBatch, but_last(1));
    records.iterate(1, kBatch, [](int worker) { return worker == kWorkers - 1 ? 12.0 : 1.0; });
    records.iterate(10, kBatch, [](int worker) { return worker == kWorkers - 1 ? 2.0 : 1.0; });
    EXPECT_NEAR(records.expected_s(kWorkers - 1, true), 2, 0.1);
    EXPECT_NEAR(records.expected_s(0, true), 1, 0.05);
}

/// One that is slow at first is just that.
TEST(LoadEstimator, ASlowFirstIterationOfOneWorkerIsNoColdStart) {
    Records records;
    records.iterate(1, kBatch, [](int worker) { return worker == 0 ? 6.0 : 1.0; });
    records.iterate(5, kBatch, [](int /*worker*/) { return 1.0; });
    EXPECT_GT(records.expected_s(0, true), 3);
    EXPECT_NEAR(records.expected_s(1, true), 1, 0.01);
}

}  // namespace
}  // namespace cohort
