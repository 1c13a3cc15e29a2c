#include "worker_costs.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {
namespace {

constexpr double kKept = 0.8;        ///< weight of a point when the next one comes
constexpr double kJump = 0.25;       ///< relative: further off the line is a change of speed
constexpr double kJumpNoise = 4;     ///< the same in mean distances
constexpr double kLearned = 0.7;     ///< weight of a new fixed share
constexpr double kJumpsKept = 0.97;  ///< per record
constexpr double kRestless = 2.5;    ///< recent jumps: what a record says of the line may be chance
constexpr double kLevelWeight = 0.3;
constexpr double kNoiseWeight = 0.1;
constexpr double kQuietRise = 0.002;  ///< per record: what was quick once need not stay possible

double relative(double value, double expected) {
    return expected > 0 ? std::abs(value / expected - 1) : 1;
}

void follow(double& mean, double value, double weight) {
    mean = mean == 0 ? value : mean + weight * (value - mean);
}

}  // namespace

void LineFit::add(double samples, double seconds) {
    for (double* sum : {&weight_, &x_, &y_, &xx_, &xy_}) {
        *sum *= kKept;
    }
    weight_ += 1;
    x_ += samples;
    y_ += seconds;
    xx_ += samples * samples;
    xy_ += samples * seconds;
}

bool LineFit::knows_slope() const noexcept {
    constexpr double kSpread = 0.02;  ///< of the square of the mean size
    const double variance = xx_ * weight_ - x_ * x_;
    return variance > kSpread * x_ * x_;
}

bool LineFit::explains(double samples, double seconds, double tolerance) const noexcept {
    const double fixed = y_ / weight_;
    const double proportional = fixed * samples / (x_ / weight_);
    return seconds > (1 - tolerance) * std::min(fixed, proportional) &&
           seconds < (1 + tolerance) * std::max(fixed, proportional);
}

/// The assumed share is one more point of little weight: at no samples, what it says is fixed.
CostLine LineFit::line(double batch, double fixed_share) const {
    constexpr double kWeight = 0.05;
    const double mean_x = x_ / weight_;
    const double mean_y = y_ / weight_;
    const double assumed_s =
        mean_y * fixed_share / (fixed_share + (1 - fixed_share) * mean_x / batch);
    const double weight = weight_ + kWeight;
    const double y = y_ + kWeight * assumed_s;
    const double slope = (xy_ * weight - x_ * y) / (xx_ * weight - x_ * x_);
    const double sample_s = std::clamp(slope, 0.0, mean_y / mean_x);
    return {.fixed_s = mean_y - sample_s * mean_x, .sample_s = sample_s};
}

WorkerCosts::WorkerCosts(int workers, std::int64_t batch, double pull_bytes)
    : batch_(static_cast<double>(batch)),
      pull_bytes_(pull_bytes),
      rows_(static_cast<std::size_t>(workers)) {
}

void WorkerCosts::learn(const TelemetryHistory& history) {
    for (int worker = 0; worker < history.workers(); ++worker) {
        Row& known = rows_[static_cast<std::size_t>(worker)];
        std::size_t fresh = 0;
        while (fresh < history.size(worker) &&
               history.record(worker, fresh).iteration > known.iteration) {
            ++fresh;
        }
        for (; fresh > 0; --fresh) {
            const IterationRecord& record = history.record(worker, fresh - 1);
            learn(known, record, history.scaled_own_s(record));
            ++records_;
        }
    }
}

void WorkerCosts::forget(int worker) {
    Row& gone = rows_.at(static_cast<std::size_t>(worker));
    gone = {.fixed_share = gone.fixed_share};
}

CostLine WorkerCosts::work(int worker) const {
    return row(worker).work.line(batch_, row(worker).fixed_share);
}

void WorkerCosts::learn(Row& row, const IterationRecord& record, double scaled_s) const {
    row.iteration = record.iteration;
    learn_work(row, record);
    learn_transfers(row, record);
    row.level_s.take(scaled_s, row.noise);
    row.even_s.take(even_own_s(row, record), row.noise);
}

void WorkerCosts::Level::take(double value, double noise) {
    if (relative(value, now) > std::max(kJump, kJumpNoise * noise)) {
        now = value;
    } else {
        follow(now, value, kLevelWeight);
    }
}

double WorkerCosts::even_own_s(const Row& row, const IterationRecord& record) const {
    const CostLine line = row.work.line(batch_, row.fixed_share);
    const auto samples = static_cast<double>(record.samples);
    const bool known = row.jumps <= kRestless && line.at(samples) > 0;
    const double scale = known ? line.at(batch_) / line.at(samples) : batch_ / samples;
    return scale * (record.input_s + record.compute_s) + record.push_s + record.pull_s;
}

double WorkerCosts::even_own_s(int worker, const IterationRecord& record) const {
    return even_own_s(row(worker), record);
}

void WorkerCosts::learn_work(Row& row, const IterationRecord& record) const {
    const auto samples = static_cast<double>(record.samples);
    const double seconds = record.input_s + record.compute_s;
    const bool resized = !row.work.empty() && record.samples != row.samples;
    row.samples = record.samples;
    if (row.work.empty()) {
        row.work.add(samples, seconds);
        return;
    }
    const CostLine before = row.work.line(batch_, row.fixed_share);
    const double limit = std::max(kJump, kJumpNoise * row.noise);
    const double off = relative(seconds, before.at(samples));
    row.jumps *= kJumpsKept;
    const bool restless = row.jumps > kRestless;
    if (off > limit && !(resized && !restless && row.work.explains(samples, seconds, limit))) {
        row.work.restart();
        row.jumps += 1;
    } else if (!resized) {
        follow(row.noise, off, kNoiseWeight);
    }
    row.work.add(samples, seconds);
    if (resized && !restless && row.work.knows_slope()) {
        const CostLine now = row.work.line(batch_, row.fixed_share);
        row.fixed_share += kLearned * (now.fixed_s / now.at(batch_) - row.fixed_share);
    }
}

namespace {

/// A single long transfer among good ones counts like any other: they vary, and add little.
void follow_transfers(double& mean, double seconds) {
    if (relative(seconds, mean) > kJump) {
        mean = (mean + seconds) / (mean > 0 ? 2 : 1);
    } else {
        follow(mean, seconds, kLevelWeight);
    }
}

void follow_least(double& least, double seconds) {
    least = least == 0 ? seconds : std::min(seconds, least * (1 + kQuietRise));
}

}  // namespace

/// What a pull took is in its rate, when the record's time holds the worker's own part alone.
void WorkerCosts::learn_transfers(Row& row, const IterationRecord& record) const {
    const double rate = record.use.rx_bytes_s;
    const double pull_s =
        std::max(record.pull_s, rate > 0 && pull_bytes_ > 0 ? pull_bytes_ / rate : 0);
    follow_transfers(row.transfer_s, record.push_s + record.pull_s);
    follow_transfers(row.seen_s, record.push_s + pull_s);
    follow_least(row.quiet_s, record.push_s + pull_s);
}

}  // namespace cohort
