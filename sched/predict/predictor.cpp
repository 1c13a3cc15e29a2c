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

/// Every forecast is a value of OwnTime, for all iterations.
class OwnTimePredictor final : public WorkerPredictor {
public:
    using Value = double (OwnTime::*)() const noexcept;

    OwnTimePredictor(int workers, std::int64_t batch, std::string_view name, Value value)
        : WorkerPredictor(workers, batch),
          name_(name),
          value_(value),
          own_(static_cast<std::size_t>(workers)) {}
    std::string_view name() const override { return name_; }
    void add_own(const IterationRecord& record, double own_s) override {
        own_.at(static_cast<std::size_t>(record.worker)).add(own_s);
    }
    void forget(int worker) override { own_.at(static_cast<std::size_t>(worker)) = {}; }
    bool predict_own(int worker, std::span<float, kMaxHorizon> own_s) const override {
        const double value = (own_.at(static_cast<std::size_t>(worker)).*value_)();
        std::ranges::fill(own_s, static_cast<float>(value));
        return value > 0;
    }

private:
    std::string_view name_;
    Value value_;
    std::vector<OwnTime> own_;
};

std::unique_ptr<WorkerPredictor> make_named(std::string_view name, int workers, std::int64_t batch,
                                            const std::shared_ptr<const LstmModel>& model) {
    if (name == "last") {
        return std::make_unique<OwnTimePredictor>(workers, batch, "last", &OwnTime::last);
    }
    if (name == "ewma") {
        return std::make_unique<OwnTimePredictor>(workers, batch, "ewma", &OwnTime::seconds);
    }
    if (name == "episodes") {
        return make_episodes_predictor(workers, batch);
    }
    if (name == "lstm") {
        if (model == nullptr) {
            fail<UsageError>({.where = "--predictor",
                              .what = "lstm needs a model",
                              .hint = "cohort predictor train"});
        }
        return make_lstm_predictor(workers, batch, std::make_shared<const LstmNetwork>(*model));
    }
    fail<UsageError>({.where = "--predictor",
                      .what = "there is no such predictor",
                      .expected = "last, ewma, episodes, lstm, auto",
                      .got = fmt::format("'{}'", name)});
}

}  // namespace

void WorkerPredictor::add(const IterationRecord& record) {
    if (const double own_s = record.own_s(batch_); own_s > 0) {
        add_own(record, own_s);
    }
}

Forecast WorkerPredictor::predict() const {
    Forecast forecast;
    forecast.own_s.resize(static_cast<std::size_t>(workers_));
    std::array<float, kMaxHorizon> own_s{};
    for (int worker = 0; worker < workers_; ++worker) {
        if (predict_own(worker, own_s)) {
            forecast.own_s[static_cast<std::size_t>(worker)].assign(own_s.begin(), own_s.end());
        }
    }
    return forecast;
}

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

std::unique_ptr<Predictor> make_predictor(std::string_view name, int workers, std::int64_t batch,
                                          const std::shared_ptr<const LstmModel>& model) {
    if (name != "auto") {
        return make_named(name, workers, batch, model);
    }
    std::vector<std::unique_ptr<WorkerPredictor>> candidates;
    for (const char* candidate : {"ewma", "last", "episodes", "lstm"}) {
        if (candidate != std::string_view("lstm") || model != nullptr) {
            candidates.push_back(make_named(candidate, workers, batch, model));
        }
    }
    return make_auto_predictor(workers, batch, std::move(candidates));
}

}  // namespace cohort
