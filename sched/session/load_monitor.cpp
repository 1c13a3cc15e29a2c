#include "sched/session/load_monitor.hpp"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

/// 0 is no number: what was known stays.
void take(double& to, double from) {
    to = from != 0 ? from : to;
}

}  // namespace

LoadMonitor::LoadMonitor(int workers, std::int64_t batch, double lag_bound,
                         std::unique_ptr<Predictor> predictor)
    : history_(workers, batch, TelemetryHistory::depth_for(workers)),
      stragglers_(workers, batch, lag_bound),
      straggler_news_(workers),
      running_(workers) {
    view_.history = &history_;
    view_.stragglers = &stragglers_;
    view_.running = &running_;
    if (predictor) {
        predict_with(std::move(predictor));
    }
}

void LoadMonitor::predict_with(std::unique_ptr<Predictor> predictor) {
    predictor_ = std::move(predictor);
    scores_.emplace(std::string(predictor_->name()), history_.workers(), history_.batch());
    forecast_at_.reset();
    for (int worker = 0; worker < history_.workers(); ++worker) {
        for (std::size_t age = history_.size(worker); age > 0; --age) {
            predictor_->add(history_.record(worker, age - 1));
        }
    }
}

void LoadMonitor::renew(const std::shared_ptr<const LstmNetwork>& network) {
    if (predictor_) {
        predictor_->renew(network);
        forecast_at_.reset();
    }
}

void LoadMonitor::timed(const IterationRecord& record) {
    running_.ended(record);
    if (record.samples <= 0) {
        return;  // it took part without samples
    }
    history_.add(record);
    stragglers_.add(record);
    straggler_news_.add(record.worker, stragglers_.open()[static_cast<std::size_t>(record.worker)]);
    if (predictor_) {
        scores_->came(record);
        predictor_->add(record);
    }
}

void LoadMonitor::lost(int worker) {
    history_.forget(worker);
    stragglers_.lost(worker);
    straggler_news_.left(worker);
    running_.forget(worker);
    if (predictor_) {
        predictor_->forget(worker);
        scores_->forget(worker);
        forecast_at_.reset();
    }
}

void LoadMonitor::forget_times() {
    for (int worker = 0; worker < history_.workers(); ++worker) {
        lost(worker);
    }
}

void LoadMonitor::ended() {
    for (int worker = 0; worker < history_.workers(); ++worker) {
        straggler_news_.left(worker);
    }
}

void LoadMonitor::updated(double loss) {
    constexpr double kWeight = 0.05;
    double& smoothed = view_.gradients.loss;
    smoothed = smoothed == 0 ? loss : smoothed + kWeight * (loss - smoothed);
}

std::vector<PredictorScore> LoadMonitor::scores() const {
    std::vector<PredictorScore> scores =
        scores_ ? scores_->scores() : std::vector<PredictorScore>();
    for (PredictorScore& score : scores) {
        score.uses = predictor_->uses();
    }
    return scores;
}

void LoadMonitor::measured(const GradientFacts& facts) {
    take(view_.gradients.noise_scale, facts.noise_scale);
    take(view_.gradients.loss, facts.loss);
}

/// With many workers a forecast is kept while few of them have brought something new.
const LoadView& LoadMonitor::view() {
    const std::int64_t few = std::max(1, history_.workers() / 8);
    if (predictor_ && (!forecast_at_ || history_.added() - *forecast_at_ >= few)) {
        forecast_at_ = history_.added();
        view_.forecast = predictor_->predict();
        scores_->predicted(view_.forecast);
    }
    return view_;
}

WorkerStats::WorkerStats(int workers, std::int64_t batch)
    : batch_(batch), reports_(static_cast<std::size_t>(workers)), times_(reports_.size()) {
}

void WorkerStats::timed(int worker, std::int64_t samples, double own_s) {
    const auto index = static_cast<std::size_t>(worker);
    if (samples <= 0) {
        return;  // it took part without samples
    }
    OwnTime& own = times_.at(index);
    own.add(own_s * static_cast<double>(batch_) / static_cast<double>(samples));
    reports_.at(index).own_s = own.seconds();
    reports_.at(index).last_own_s = own.last();
}

void WorkerStats::settled(const PushOutcome& outcome) {
    WorkerReport& report = reports_.at(static_cast<std::size_t>(outcome.worker));
    if (!outcome.returned || outcome.lag > 0) {
        report.lag = outcome.lag;
    }
    if (outcome.returned) {
        ++report.refused.at(static_cast<std::size_t>(*outcome.returned));
        return;
    }
    ++report.pushes;
    ++pushes_;
    report.samples += outcome.samples;
    report.discounted += outcome.weight < 1 ? 1 : 0;
    report.over_bound += outcome.over_bound ? 1 : 0;
    report.lag_sum += outcome.lag;
    report.lag_max = std::max(report.lag_max, outcome.lag);
    report.lag_updates_sum += outcome.lag_updates;
}

void WorkerStats::undone(int worker, std::int64_t samples) {
    WorkerReport& report = reports_.at(static_cast<std::size_t>(worker));
    ++report.refused.at(static_cast<std::size_t>(ReturnReason::kLost));
    report.samples -= samples;
    --report.pushes;
}

void WorkerStats::lost(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    reports_.at(index).live = false;
    ++reports_.at(index).lost;
}

/// Its times of before may be those of another machine's load.
void WorkerStats::joined(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    WorkerReport& report = reports_.at(index);
    report.live = true;
    report.lag = 0;
    report.own_s = 0;
    report.last_own_s = 0;
    times_.at(index) = OwnTime();
}

double WorkerStats::slowest_own_s() const noexcept {
    double most = 0;
    for (const WorkerReport& report : reports_) {
        most = report.live ? std::max(most, report.last_own_s) : most;
    }
    return most;
}

}  // namespace cohort
