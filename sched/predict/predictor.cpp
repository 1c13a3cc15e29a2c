#include "cohort/sched/predictor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
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

constexpr int kEvery = 4;     ///< least number of records of a worker between two forecasts
constexpr int kAsked = 32;    ///< approximate limit of forecasts per iteration, in workers
constexpr int kRecent = 256;  ///< approximate number of iterations over which errors are averaged
constexpr int kEnoughErrors = 32;  ///< iterations before errors are compared
constexpr double kBetter =
    0.9;  ///< another candidate takes over below this share of the present one's error

/// Now and then all candidates make a forecast for a worker, and each is compared with the records
/// that follow: the relative errors at kHorizons, averaged over the job's workers with exponential
/// weights. All candidates get the same records, so the comparison is fair.
class AutoPredictor final : public WorkerPredictor {
public:
    AutoPredictor(int workers, std::int64_t batch,
                  std::vector<std::unique_ptr<WorkerPredictor>> candidates)
        : WorkerPredictor(workers, batch),
          candidates_(std::move(candidates)),
          errors_(candidates_.size()),
          workers_(static_cast<std::size_t>(workers)),
          every_(std::max(kEvery, workers / kAsked)) {}

    std::string_view name() const override { return "auto"; }
    std::string_view uses() const override { return candidates_[chosen_]->name(); }

    void add_own(const IterationRecord& record, double own_s) override {
        Worker& worker = workers_.at(static_cast<std::size_t>(record.worker));
        settle(worker, own_s);
        for (const auto& candidate : candidates_) {
            candidate->add_own(record, own_s);
        }
        if ((worker.records++ + record.worker) % every_ == 0) {
            ask(worker, record.worker);
        }
        choose();
    }

    void forget(int worker) override {
        workers_.at(static_cast<std::size_t>(worker)) = {};
        for (const auto& candidate : candidates_) {
            candidate->forget(worker);
        }
    }

    bool predict_own(int worker, std::span<float, kMaxHorizon> own_s) const override {
        return candidates_[chosen_]->predict_own(worker, own_s);
    }

    void renew(const std::shared_ptr<const LstmNetwork>& network) override {
        for (const auto& candidate : candidates_) {
            candidate->renew(network);
        }
    }

private:
    using AtHorizons = std::array<float, kHorizons.size()>;
    /// The candidates' forecasts at one time.
    struct Asked {
        std::vector<AtHorizons> own_s;
        int age = 0;
    };
    struct Worker {
        std::deque<Asked> asked;
        std::int64_t records = 0;
    };
    /// Recent errors of a candidate at each horizon.
    struct Errors {
        std::array<double, kHorizons.size()> mean{};
        [[nodiscard]] double all() const { return std::accumulate(mean.begin(), mean.end(), 0.0); }
    };

    /// Number of forecasts in `iterations` iterations, at least one.
    [[nodiscard]] double in(int iterations) const {
        return std::max(1.0, static_cast<double>(workers_.size()) * iterations / every_);
    }

    void ask(Worker& worker, int index) const {
        Asked now;
        std::array<float, kMaxHorizon> own_s{};
        for (const auto& candidate : candidates_) {
            if (!candidate->predict_own(index, own_s)) {
                return;
            }
            AtHorizons& at = now.own_s.emplace_back();
            for (std::size_t i = 0; i < at.size(); ++i) {
                at.at(i) = own_s.at(static_cast<std::size_t>(kHorizons.at(i) - 1));
            }
        }
        worker.asked.push_back(std::move(now));
    }

    void settle(Worker& worker, double own_s) {
        for (Asked& asked : worker.asked) {
            const auto* const horizon = std::ranges::find(kHorizons, ++asked.age);
            if (horizon == kHorizons.end()) {
                continue;
            }
            const auto at = static_cast<std::size_t>(horizon - kHorizons.begin());
            const std::int64_t count = ++settled_.at(at);
            const double weight = 1 / std::min(static_cast<double>(count), in(kRecent));
            for (std::size_t i = 0; i < candidates_.size(); ++i) {
                const double said = static_cast<double>(asked.own_s[i].at(at));
                double& mean = errors_[i].mean.at(at);
                mean += weight * (std::abs(said - own_s) / own_s - mean);
            }
        }
        while (!worker.asked.empty() && worker.asked.front().age >= kMaxHorizon) {
            worker.asked.pop_front();
        }
    }

    void choose() {
        if (static_cast<double>(settled_.back()) < in(kEnoughErrors)) {
            return;
        }
        const auto best = static_cast<std::size_t>(
            std::ranges::min_element(errors_, {}, &Errors::all) - errors_.begin());
        if (errors_[best].all() < kBetter * errors_[chosen_].all()) {
            chosen_ = best;
        }
    }

    std::vector<std::unique_ptr<WorkerPredictor>> candidates_;
    std::vector<Errors> errors_;
    std::array<std::int64_t, kHorizons.size()> settled_{};
    std::vector<Worker> workers_;
    int every_;
    std::size_t chosen_ = 0;
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
    return std::make_unique<AutoPredictor>(workers, batch, std::move(candidates));
}

}  // namespace cohort
