#include "cohort/sched/predictor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sched/policy.hpp"
#include "sched/predict/predictors.hpp"

namespace cohort {
namespace {

class LastPredictor final : public WorkerPredictor {
public:
    explicit LastPredictor(int workers) : last_(static_cast<std::size_t>(workers), 0) {}
    std::string_view name() const override { return "last"; }
    void add(const IterationRecord& record, double own_s) override {
        last_.at(static_cast<std::size_t>(record.worker)) = own_s;
    }
    void forget(int worker) override { last_.at(static_cast<std::size_t>(worker)) = 0; }
    bool predict(int worker, std::span<float, kMaxHorizon> own_s) const override {
        const double last = last_.at(static_cast<std::size_t>(worker));
        std::fill(own_s.begin(), own_s.end(), static_cast<float>(last));
        return last > 0;
    }

private:
    std::vector<double> last_;
};

class EwmaPredictor final : public WorkerPredictor {
public:
    explicit EwmaPredictor(int workers) : own_(static_cast<std::size_t>(workers)) {}
    std::string_view name() const override { return "ewma"; }
    void add(const IterationRecord& record, double own_s) override {
        own_.at(static_cast<std::size_t>(record.worker)).add(own_s);
    }
    void forget(int worker) override { own_.at(static_cast<std::size_t>(worker)) = {}; }
    bool predict(int worker, std::span<float, kMaxHorizon> own_s) const override {
        const double mean = own_.at(static_cast<std::size_t>(worker)).seconds();
        std::fill(own_s.begin(), own_s.end(), static_cast<float>(mean));
        return mean > 0;
    }

private:
    std::vector<OwnTime> own_;
};

/// Forecasts of all workers, from a predictor of single workers.
class PredictorOfWorkers final : public Predictor {
public:
    PredictorOfWorkers(int workers, std::int64_t batch, std::unique_ptr<WorkerPredictor> each)
        : workers_(workers), batch_(batch), each_(std::move(each)) {}

    std::string_view name() const override { return each_->name(); }
    std::string_view uses() const override { return each_->uses(); }
    void add(const IterationRecord& record) override {
        if (const double own_s = record.own_s(batch_); own_s > 0) {
            each_->add(record, own_s);
        }
    }
    void forget(int worker) override { each_->forget(worker); }
    Forecast predict() const override {
        Forecast forecast;
        forecast.own_s.resize(static_cast<std::size_t>(workers_));
        std::array<float, kMaxHorizon> own_s{};
        for (int worker = 0; worker < workers_; ++worker) {
            if (each_->predict(worker, own_s)) {
                forecast.own_s[static_cast<std::size_t>(worker)].assign(own_s.begin(), own_s.end());
            }
        }
        return forecast;
    }
    void renew(const std::shared_ptr<const LstmNetwork>& network) override {
        each_->renew(network);
    }

private:
    int workers_;
    std::int64_t batch_;
    std::unique_ptr<WorkerPredictor> each_;
};

[[noreturn]] void refuse_name(std::string_view name) {
    fail<UsageError>({.where = "--predictor",
                      .what = "there is no such predictor",
                      .expected = "last, ewma, episodes, lstm, auto",
                      .got = fmt::format("'{}'", name)});
}

std::unique_ptr<WorkerPredictor> lstm_of_model(int workers,
                                               const std::shared_ptr<const LstmModel>& model) {
    if (model == nullptr) {
        fail<UsageError>({.where = "--predictor",
                          .what = "lstm needs a model",
                          .hint = "cohort predictor train"});
    }
    return make_lstm_predictor(workers, std::make_shared<const LstmNetwork>(*model));
}

std::unique_ptr<WorkerPredictor> make_auto(int workers,
                                           const std::shared_ptr<const LstmModel>& model) {
    std::vector<std::unique_ptr<WorkerPredictor>> candidates;
    candidates.push_back(make_ewma_predictor(workers));
    candidates.push_back(make_last_predictor(workers));
    candidates.push_back(make_episodes_predictor(workers));
    if (model != nullptr) {
        candidates.push_back(lstm_of_model(workers, model));
    }
    return make_auto_predictor(workers, std::move(candidates));
}

}  // namespace

double Forecast::next(int worker) const {
    return mean(worker, 1);
}

double Forecast::mean(int worker, int iterations) const {
    if (own_s.empty()) {
        return 0;  // no forecast was requested yet
    }
    const std::vector<float>& row = own_s.at(static_cast<std::size_t>(worker));
    const auto count = std::min(static_cast<std::size_t>(std::max(iterations, 1)), row.size());
    const auto end = row.begin() + static_cast<std::ptrdiff_t>(count);
    return count == 0 ? 0 : std::accumulate(row.begin(), end, 0.0) / static_cast<double>(count);
}

std::unique_ptr<WorkerPredictor> make_last_predictor(int workers) {
    return std::make_unique<LastPredictor>(workers);
}

std::unique_ptr<WorkerPredictor> make_ewma_predictor(int workers) {
    return std::make_unique<EwmaPredictor>(workers);
}

std::unique_ptr<Predictor> make_predictor(std::string_view name, int workers, std::int64_t batch,
                                          const std::shared_ptr<const LstmModel>& model) {
    std::unique_ptr<WorkerPredictor> each;
    if (name == "last") {
        each = make_last_predictor(workers);
    } else if (name == "ewma") {
        each = make_ewma_predictor(workers);
    } else if (name == "episodes") {
        each = make_episodes_predictor(workers);
    } else if (name == "lstm") {
        each = lstm_of_model(workers, model);
    } else if (name == "auto") {
        each = make_auto(workers, model);
    } else {
        refuse_name(name);
    }
    return std::make_unique<PredictorOfWorkers>(workers, batch, std::move(each));
}

}  // namespace cohort
