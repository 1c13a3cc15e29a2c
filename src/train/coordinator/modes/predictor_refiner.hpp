#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cohort/train/trainer.hpp"
#include "sched/predict/lstm_model.hpp"
#include "train/protocol/share_limit.hpp"

namespace cohort {

/// Refines the predictor's model beside a run, on a thread of the lowest priority that pauses after
/// every piece of work, so that it takes the given share of one core at most. The caller only
/// leaves copies of records and picks up what has become better: it waits for no piece of work.
class PredictorRefiner {
public:
    static constexpr double kShare = 0.01;

    /// @param share  see ShareLimit
    PredictorRefiner(const LstmModel& model, int workers, std::int64_t batch,
                     double share = kShare);
    /// Ends the thread within a piece of work.
    ~PredictorRefiner();
    PredictorRefiner(const PredictorRefiner&) = delete;
    PredictorRefiner& operator=(const PredictorRefiner&) = delete;

    void add(const IterationRecord& record);
    void forget(int worker);
    /// A better model that was not taken yet, ready to be used; null: there is none.
    [[nodiscard]] std::shared_ptr<const LstmNetwork> take();
    [[nodiscard]] RefinerUse use() const;

private:
    /// A record, or with no samples: the worker is to be forgotten.
    using Item = IterationRecord;

    void leave(const Item& item);
    void run(LstmModel model, int workers, std::int64_t batch);
    /// @return false: it is to end
    bool pause(std::unique_lock<std::mutex>& lock, Clock::Seconds time);

    ShareLimit limit_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Item> items_;                     ///< not seen by the thread yet
    std::shared_ptr<const LstmNetwork> renewed_;  ///< not taken yet
    RefinerUse use_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace cohort
