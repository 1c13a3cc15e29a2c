#include "cohort/sched/active_iterations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {

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
