#include "load_estimator.hpp"

#include <algorithm>
#include <cmath>

#include "batch_balance.hpp"

namespace cohort {
namespace {

constexpr double kErrorWeight = 0.02;
constexpr double kUsualWeight = 1.0 / 32;
constexpr double kSteady = 0.03;    ///< relative change of a level that is none
constexpr double kSteadyNoise = 2;  ///< the same in mean distances
constexpr int kSteadyRecords = 48;  ///< most that a steady mean is made of
constexpr double kNearly = 1;       ///< forecasts may be so much worse than the present
constexpr double kSlack = 0.001;    ///< and that much on top
constexpr double kMostChange = 10;  ///< of a forecast, up or down
constexpr double kWarmer = 0.8;     ///< of its first iteration: that one was cold
constexpr std::size_t kWarmUp = 2;  ///< records of a worker: everything is cold in the first one
constexpr std::size_t kSure = 8;    ///< that tell how its times vary

/// The upper value of the lowest quarter.
double lower_quarter(std::vector<double> values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

}  // namespace

LoadEstimator::LoadEstimator(int workers, std::int64_t batch, double pull_bytes)
    : batch_(batch), costs_(workers, batch, pull_bytes), rows_(static_cast<std::size_t>(workers)) {
}

void LoadEstimator::learn(const LoadView& view, const std::vector<int>& live) {
    const TelemetryHistory& history = *view.history;
    costs_.learn(history);
    for (int worker = 0; worker < history.workers(); ++worker) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        if (history.size(worker) == 0) {
            continue;
        }
        const IterationRecord& newest = history.record(worker, 0);
        if (newest.iteration > row.iteration) {
            row.iteration = newest.iteration;
            judge(row, history.scaled_own_s(newest));
            settle(row, worker, costs_.even_own_s(worker, newest));
            row.level_s = costs_.level_s(worker);
            row.forecast_s = view.forecast.next(worker);
        }
    }
    if (!cold_) {
        warm_up(live);
    }
}

/// A first iteration that took most workers longer than the second one was cold: what it left in
/// the means is set right, and those who bring their first one later are known.
void LoadEstimator::warm_up(const std::vector<int>& live) {
    std::vector<double> warmth;
    for (const int worker : live) {
        const Row& row = rows_[static_cast<std::size_t>(worker)];
        if (row.warmth > 0) {
            warmth.push_back(row.warmth);
        }
    }
    if (2 * warmth.size() <= live.size()) {
        return;
    }
    const double ratio = median_of(warmth);
    cold_ = ratio < kWarmer ? ratio : 1;
    for (Row& row : rows_) {
        row.usual_s -= (1 - *cold_) * row.first_share_s;
    }
}

void LoadEstimator::judge(Row& row, double own_s) {
    if (row.forecast_s <= 0 || row.level_s <= 0) {
        return;
    }
    const auto error = [&](double predicted) {
        return std::min(1.0, std::abs(predicted - own_s) / own_s);
    };
    forecast_error_ += kErrorWeight * (error(row.forecast_s) - forecast_error_);
    level_error_ += kErrorWeight * (error(row.level_s) - level_error_);
}

/// As long as the level stays within what noise makes of it, the mean of many records is nearer to
/// what is.
void LoadEstimator::settle(Row& row, int worker, double own_s) const {
    if (row.usual_s == 0) {
        row.usual_s = cold_.value_or(1) * own_s;
        row.first_share_s = own_s;
    } else {
        row.warmth = row.warmth > 0 ? row.warmth : own_s / row.usual_s;
        row.usual_s += kUsualWeight * (own_s - row.usual_s);
        row.first_share_s *= 1 - kUsualWeight;
    }
    const double level_s = costs_.even_level_s(worker);
    const double within = std::max(kSteady, kSteadyNoise * costs_.noise(worker));
    if (row.steady == 0 || std::abs(level_s / row.steady_s - 1) > within) {
        row.steady = 1;
        row.steady_s = level_s;
        return;
    }
    row.steady = std::min(row.steady + 1, kSteadyRecords);
    row.steady_s += (own_s - row.steady_s) / row.steady;
}

bool LoadEstimator::trusts_forecasts() const noexcept {
    return forecast_error_ <= kNearly * level_error_ + kSlack;
}

void LoadEstimator::forget(int worker) {
    costs_.forget(worker);
    rows_.at(static_cast<std::size_t>(worker)) = {};
}

double LoadEstimator::noise(const std::vector<int>& live) const {
    double sum = 0;
    for (const int worker : live) {
        sum += costs_.noise(worker);
    }
    return sum / static_cast<double>(live.size());
}

bool LoadEstimator::ready(const std::vector<int>& live, const TelemetryHistory& history) const {
    const auto known = std::count_if(live.begin(), live.end(), [&](int worker) {
        return costs_.known(worker) && history.size(worker) >= kWarmUp;
    });
    return 2 * static_cast<std::size_t>(known) > live.size();
}

double LoadEstimator::factor(int worker, const Forecast& forecast, int horizon, bool usual) const {
    const Row& row = rows_.at(static_cast<std::size_t>(worker));
    if (usual) {
        return row.usual_s / costs_.even_level_s(worker);
    }
    const double coming_s = trusts_forecasts() ? forecast.mean(worker, horizon) : 0;
    const double rise = coming_s / costs_.level_s(worker);
    const double change = coming_s > 0 ? std::clamp(rise, 1 / kMostChange, kMostChange) : 1;
    return change * row.steady_s / costs_.even_level_s(worker);
}

/// Of whom nothing is known is like the one in the middle.
LoadEstimate LoadEstimator::estimate(const LoadView& view, const std::vector<int>& live,
                                     int horizon, bool usual) const {
    LoadEstimate load{.work = std::vector<CostLine>(rows_.size()),
                      .transfer_s = std::vector<double>(rows_.size(), 0),
                      .capacity = view.capacity};
    std::vector<double> fixed;
    std::vector<double> samples;
    std::vector<double> transfers;
    for (const int worker : live) {
        if (!costs_.known(worker)) {
            continue;
        }
        const auto i = static_cast<std::size_t>(worker);
        const double change = factor(worker, view.forecast, horizon, usual);
        const CostLine now = costs_.work(worker);
        load.work[i] = {.fixed_s = change * now.fixed_s, .sample_s = change * now.sample_s};
        load.transfer_s[i] = costs_.transfer_s(worker);
        fixed.push_back(load.work[i].fixed_s);
        samples.push_back(load.work[i].sample_s);
        transfers.push_back(load.transfer_s[i]);
    }
    for (const int worker : live) {
        if (!costs_.known(worker) && !fixed.empty()) {
            const auto i = static_cast<std::size_t>(worker);
            load.work[i] = {.fixed_s = median_of(fixed), .sample_s = median_of(samples)};
            load.transfer_s[i] = median_of(transfers);
        }
    }
    share_contention(load, live);
    return load;
}

bool LoadEstimator::sure(int worker, const TelemetryHistory& history) const {
    return costs_.known(worker) && history.size(worker) >= kSure;
}

LoadEstimate LoadEstimator::usual(LoadEstimate load, const std::vector<int>& live) const {
    const auto batch = static_cast<double>(batch_);
    for (const int worker : live) {
        CostLine& work = load.work[static_cast<std::size_t>(worker)];
        if (costs_.known(worker) && costs_.work(worker).at(batch) > work.at(batch)) {
            work = costs_.work(worker);
        }
    }
    return load;
}

/// What transfers of nearly all workers take beyond the usual is the servers' network: they would
/// wait for it under any plan, since it has to carry the same bytes for a sample.
void LoadEstimator::share_contention(LoadEstimate& load, const std::vector<int>& live) const {
    constexpr double kNotable = 0.1;  ///< of an iteration
    constexpr double kBinds = 0.6;    ///< use of the servers from which on they are looked at
    std::vector<double> rises;
    std::vector<double> own;
    for (const int worker : live) {
        const auto i = static_cast<std::size_t>(worker);
        own.push_back(load.own_s(i, batch_));
        if (costs_.known(worker)) {
            rises.push_back(costs_.seen_transfer_s(worker) - costs_.quiet_transfer_s(worker));
        }
    }
    if (rises.empty()) {
        return;
    }
    const double common_s = lower_quarter(rises);
    const double iteration_s = median_of(own);
    const SharedCapacity& capacity = load.capacity;
    const double server_s = std::max(capacity.push_s, capacity.update_s + capacity.add_s);
    if (server_s * static_cast<double>(live.size()) < kBinds * iteration_s) {
        load.capacity = {};
    }
    if (common_s < kNotable * iteration_s) {
        return;
    }
    load.crowd_s = common_s;
    for (const int worker : live) {
        double& transfer_s = load.transfer_s[static_cast<std::size_t>(worker)];
        const double alone_s = std::max(costs_.seen_transfer_s(worker) - common_s, 0.0);
        transfer_s = costs_.known(worker) ? std::min(transfer_s, alone_s) : transfer_s;
    }
}

}  // namespace cohort
