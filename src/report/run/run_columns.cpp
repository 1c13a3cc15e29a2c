#include "report/run/run_columns.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

void add_worker(WorkerColumn& column, const WorkerWindow& worker, double for_s) {
    column.lag.add(worker.lag, for_s);
    const double iteration_s = worker.tau_s + worker.wait_s;
    if (!(iteration_s > 0)) {
        return;
    }
    const double share = for_s / iteration_s;
    column.seconds += for_s;
    column.input_s += share * worker.input_s;
    column.compute_s += share * worker.compute_s;
    column.transfer_s += share * (worker.push_s + worker.pull_s);
    column.wait_s += share * worker.wait_s;
}

void add_window(RunColumn& column, const TrainLine& window, double for_s) {
    column.loss.add(window.loss, for_s);
    column.quality.add(std::isnan(window.r2) ? window.accuracy : window.r2, for_s);
    column.samples_per_s.add(window.samples_per_s, for_s);
    if (column.workers.size() < window.workers.size()) {
        column.workers.resize(window.workers.size());
    }
    for (std::size_t worker = 0; worker < window.workers.size(); ++worker) {
        add_worker(column.workers[worker], window.workers[worker], for_s);
    }
}

/// Adds the second of two neighbours to the first.
void merge(RunColumn& first, const RunColumn& second) {
    first.loss.add(second.loss);
    first.quality.add(second.quality);
    first.samples_per_s.add(second.samples_per_s);
    first.workers.resize(std::max(first.workers.size(), second.workers.size()));
    for (std::size_t worker = 0; worker < second.workers.size(); ++worker) {
        first.workers[worker].add(second.workers[worker]);
    }
}

}  // namespace

void TimeMean::add(double value, double for_s) {
    if (std::isfinite(value)) {
        seconds += for_s;
        sum += value * for_s;
        least = std::min(least, value);
        most = std::max(most, value);
    }
}

void TimeMean::add(const TimeMean& other) {
    seconds += other.seconds;
    sum += other.sum;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
}

void WorkerColumn::add(const WorkerColumn& other) {
    seconds += other.seconds;
    input_s += other.input_s;
    compute_s += other.compute_s;
    transfer_s += other.transfer_s;
    wait_s += other.wait_s;
    lag.add(other.lag);
}

void RunColumns::widen() {
    width_s_ *= 2;
    const std::size_t kept = (columns_.size() + 1) / 2;
    for (std::size_t i = 0; i < kept; ++i) {
        if (i > 0) {
            columns_[i] = std::move(columns_[2 * i]);
        }
        if (2 * i + 1 < columns_.size()) {
            merge(columns_[i], columns_[2 * i + 1]);
        }
    }
    columns_.resize(kept);
}

void RunColumns::add(double begin_s, const TrainLine& window) {
    const double end_s = window.train_s;
    if (!(end_s > begin_s) || !std::isfinite(end_s)) {
        return;
    }
    while (end_s > width_s_ * kMost) {
        widen();
    }
    const auto first = static_cast<std::size_t>(begin_s / width_s_);
    const auto last = std::min(kMost, static_cast<std::size_t>(std::ceil(end_s / width_s_)));
    columns_.resize(std::max(columns_.size(), last));
    for (std::size_t i = first; i < last; ++i) {
        const double column_s = static_cast<double>(i) * width_s_;
        const double for_s = std::min(end_s, column_s + width_s_) - std::max(begin_s, column_s);
        if (for_s > 0) {
            add_window(columns_[i], window, for_s);
        }
    }
}

}  // namespace cohort
