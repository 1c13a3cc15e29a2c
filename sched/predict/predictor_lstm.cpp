#include <algorithm>
#include <utility>

#include "sched/predict/predictors.hpp"

namespace cohort {
namespace {

/// Share of a step's difference from the mean that is added to the next step. With the whole
/// difference small probabilities would add up over the forecast, and random slowness would be
/// predicted to begin.
constexpr float kOwed = 0.8F;
constexpr float kMostLog = 5;  ///< limit of the logarithm of an own time over the usual one

/// The model's memory restarts after as many records as it was trained with. So each worker has two
/// memories, half a window apart, and predictions use the longer one.
class LstmMemory {
public:
    void add(const LstmNetwork& network, const LstmFeatures& scaled) {
        for (One& one : both_) {
            if (one.age == LstmModel::kWindow) {
                one = {};
            }
            if (++one.age > 0) {
                one.next = network.step(scaled, one.state);
            }
        }
    }
    /// State after the newest record.
    [[nodiscard]] const LstmState& state() const { return oldest().state; }
    [[nodiscard]] const LstmNetwork::Outputs& next() const { return oldest().next; }
    [[nodiscard]] bool empty() const { return oldest().age <= 0; }

private:
    struct One {
        LstmState state;
        LstmNetwork::Outputs next{};
        int age = 0;  ///< records; below 0: not started yet
    };
    [[nodiscard]] const One& oldest() const {
        return both_[0].age >= both_[1].age ? both_[0] : both_[1];
    }
    std::array<One, 2> both_{One{}, One{.state = {}, .next = {}, .age = -LstmModel::kWindow / 2}};
};

/// The newest records of a worker, scaled.
class LstmPast {
public:
    void add(const LstmFeatures& scaled) {
        if (records_.size() < kPast) {
            records_.push_back(scaled);
        } else {
            records_[next_] = scaled;
            next_ = (next_ + 1) % kPast;
        }
    }
    /// The record most similar to `scaled`; `scaled` itself when none is similar.
    [[nodiscard]] LstmFeatures nearest(const LstmFeatures& scaled) const {
        float least = kAlike;
        const LstmFeatures* found = &scaled;
        for (const LstmFeatures& each : records_) {
            float distance = 0;
            for (std::size_t i = 0; i < each.size(); ++i) {
                distance += (each[i] - scaled[i]) * (each[i] - scaled[i]);
            }
            if (distance < least) {
                least = distance;
                found = &each;
            }
        }
        return *found;
    }

private:
    static constexpr std::size_t kPast = 256;
    static constexpr float kAlike = 100;  ///< squared distance, in deviations
    std::vector<LstmFeatures> records_;   ///< a ring
    std::size_t next_ = 0;
};

/// Forecasts are made on request and kept until the worker's next record.
class LstmPredictor final : public WorkerPredictor {
public:
    LstmPredictor(int workers, std::int64_t batch, std::shared_ptr<const LstmNetwork> network)
        : WorkerPredictor(workers, batch),
          network_(std::move(network)),
          workers_(static_cast<std::size_t>(workers)) {}

    std::string_view name() const override { return "lstm"; }
    void add_own(const IterationRecord& record, double own_s) override {
        Worker& worker = workers_.at(static_cast<std::size_t>(record.worker));
        const LstmFeatures scaled = network_->scaled(worker.scale.add(record.use, own_s));
        worker.memory.add(*network_, scaled);
        worker.past.add(scaled);
        worker.rolled_out = false;
    }
    void forget(int worker) override { workers_.at(static_cast<std::size_t>(worker)) = {}; }
    bool predict_own(int worker, std::span<float, kMaxHorizon> own_s) const override {
        const Worker& of = workers_.at(static_cast<std::size_t>(worker));
        if (of.memory.empty()) {
            return false;
        }
        if (!of.rolled_out) {
            roll_out(of);
        }
        std::ranges::copy(of.forecast, own_s.begin());
        return true;
    }
    /// Memories are kept: their content fades with the next records.
    void renew(const std::shared_ptr<const LstmNetwork>& network) override {
        network_ = network;
        for (Worker& worker : workers_) {
            worker.rolled_out = false;
        }
    }

private:
    struct Worker {
        LstmScale scale;
        LstmMemory memory;
        LstmPast past;
        mutable std::array<float, kMaxHorizon> forecast{};
        mutable bool rolled_out = false;
    };

    /// The network predicts the mean of the next record, and between quick and slow there are often
    /// no real records. So the most similar record of the worker's past stands for the next record,
    /// and the network predicts the record after it.
    void roll_out(const Worker& of) const {
        LstmState state = of.memory.state();
        LstmNetwork::Outputs next = of.memory.next();
        LstmFeatures owed{};
        for (std::size_t ahead = 0; ahead < of.forecast.size(); ++ahead) {
            LstmFeatures said{};
            std::copy(next.begin(), next.begin() + LstmModel::kFeatures, said.begin());
            said[LstmModel::kTime] = next.back();
            for (std::size_t i = 0; i < said.size(); ++i) {
                said[i] += owed[i];
            }
            const LstmFeatures taken = of.past.nearest(said);
            for (std::size_t i = 0; i < said.size(); ++i) {
                owed[i] = kOwed * (said[i] - taken[i]);
            }
            const float log_time =
                std::clamp(network_->log_time(taken[LstmModel::kTime]), -kMostLog, kMostLog);
            of.forecast.at(ahead) = static_cast<float>(of.scale.own_s(log_time));
            if (ahead + 1 < of.forecast.size()) {
                next = network_->step(taken, state);
            }
        }
        of.rolled_out = true;
    }

    std::shared_ptr<const LstmNetwork> network_;
    std::vector<Worker> workers_;
};

}  // namespace

std::unique_ptr<WorkerPredictor> make_lstm_predictor(int workers, std::int64_t batch,
                                                     std::shared_ptr<const LstmNetwork> network) {
    return std::make_unique<LstmPredictor>(workers, batch, std::move(network));
}

}  // namespace cohort
