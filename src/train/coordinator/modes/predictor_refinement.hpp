#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/core/rng.hpp"
#include "sched/predict/lstm_model.hpp"
#include "train/fit/predictor_trainer.hpp"

namespace cohort {

/// Goes on training a model with the records of a run. The model in training is judged by records
/// that came after its last step, against the one in use: only a better one takes its place, and
/// one that has gone astray begins again from there. In small pieces of work, so that a thread can
/// pause between them.
class PredictorRefinement {
public:
    static constexpr std::int64_t kFresh = 32;  ///< records of a worker that a judgement needs
    static constexpr int kSteps = 16;           ///< of Adam after a judgement

    PredictorRefinement(LstmModel model, int workers, std::int64_t batch);

    void add(const IterationRecord& record);
    /// What was recorded of it counts no more.
    void forget(int worker);

    /// Does one piece of work: a judgement or a step, some milliseconds.
    /// @return false: there is none before more records come
    bool work();
    /// The model in use; a new object whenever a better one took over.
    [[nodiscard]] std::shared_ptr<const LstmModel> model() const { return used_; }
    [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

private:
    struct Worker {
        LstmScale scale;
        std::vector<LstmFeatures> features;  ///< the newest
        std::int64_t fresh = 0;              ///< since the last step
        [[nodiscard]] bool ready() const {
            return features.size() > static_cast<std::size_t>(LstmModel::kWindow);
        }
    };

    [[nodiscard]] bool judgement_due() const;
    void judge();
    void step();

    std::shared_ptr<const LstmModel> used_;
    std::int64_t batch_;
    std::size_t depth_;  ///< records that are kept of a worker, at least
    std::vector<Worker> workers_;
    PredictorTrainer trainer_;
    PredictorTrainer judge_;  ///< holds the model in use
    Rng rng_;
    int steps_left_ = 0;
    std::int64_t steps_ = 0;
    bool trained_ = false;  ///< the model in training is another one than that in use
};

}  // namespace cohort
