#include "cohort/sched/telemetry.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cohort/sched/load_view.hpp"

namespace cohort {
namespace {

/// Records that all workers together may keep.
constexpr std::size_t kAllRecords = 1U << 16U;
/// Least number of records of a worker: a predictor that starts late learns from them first.
constexpr std::size_t kLeastDepth = 32;

}  // namespace

std::size_t TelemetryHistory::depth_for(int workers) noexcept {
    const std::size_t each = kAllRecords / static_cast<std::size_t>(std::max(workers, 1));
    return std::clamp(each, kLeastDepth, kDepth);
}

TelemetryHistory::TelemetryHistory(int workers, std::int64_t batch, std::size_t depth)
    : batch_(batch),
      depth_(std::max<std::size_t>(depth, 1)),
      rows_(static_cast<std::size_t>(workers)) {
}

void TelemetryHistory::add(const IterationRecord& record) {
    Row& row = rows_.at(static_cast<std::size_t>(record.worker));
    row.push_front(record);
    if (row.size() > depth_) {
        row.pop_back();
    }
    ++added_;
}

void ActiveIterations::begun(int worker, double now_s, std::int64_t samples) {
    Row& one = row(worker);
    one.begun_s = now_s;
    one.samples = samples;
}

/// The first ones are a plain mean. One that is far off, as by an evaluation in it, is not believed
/// at once.
void ActiveIterations::ended(const IterationRecord& record) {
    constexpr double kWeight = 0.1;
    Row& one = row(record.worker);
    const std::optional<double> begun_s = std::exchange(one.begun_s, std::nullopt);
    if (!begun_s || record.samples <= 0) {
        return;
    }
    const double most_s = record.own_s() + one.beside_noise_s;
    const double beside_s = record.arrived_s - *begun_s - record.own_s();
    const double off_s = std::clamp(beside_s - one.beside_s, -most_s, most_s);
    const double weight = std::max(kWeight, 1 / static_cast<double>(++one.measured));
    one.beside_noise_s += one.measured == 1 ? 0 : weight * (std::abs(off_s) - one.beside_noise_s);
    one.beside_s += weight * off_s;
}

}  // namespace cohort
