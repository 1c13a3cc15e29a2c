#include "sched/cost/own_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cohort/core/statistics.hpp"

namespace cohort {
namespace {

constexpr double kLeastNoise = 0.05;  ///< of logarithms: noise of clock and scheduler
constexpr double kRunningNoise =
    0.1;  ///< the same while an iteration runs: other processes disturb it
constexpr double kFirstNoise = 0.1;  ///< assumed before any is known...
constexpr double kPriorWeight = 8;   ///< ...as if seen so often
constexpr double kPooled = 16;       ///< weight of all workers' noise in the noise of each, records
constexpr std::ptrdiff_t kAround = 4;  ///< records on either side that make a local mean
constexpr int kBlock = 8;              ///< iterations that are drawn together
constexpr double kLater = 1.5;         ///< times as long, until a late worker is checked again
constexpr double kSlow = 1.2;          ///< times the common level
constexpr double kAgain = 2;           ///< times what has elapsed: as long again
constexpr double kRounding = 1e-6;     ///< of seconds, as they are added up

/// The deviation of a normal variable, from the ninth decile of the distances between two samples:
/// rare outliers do not count.
double deviation_of(std::vector<double> distances) {
    constexpr double kDecile = 1.6449 * 1.4142;
    const auto at = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() * 9 / 10);
    std::nth_element(distances.begin(), at, distances.end());
    return *at / kDecile;
}

/// The part of a distance from the common level that is not chance (OwnTimes).
double garrote(double distance, double error) {
    const double least = OwnTimes::kSure * error;
    return distance * std::max(0.0, 1 - least * least / std::max(distance * distance, 1e-12));
}

/// The newest part of [from, end) whose mean differs most, in standard errors for a deviation of 1.
struct Split {
    std::size_t newest = 0;
    double errors = 0;
};
Split best_split(const std::vector<double>& sums, std::size_t from) {
    const std::size_t end = sums.size() - 1;
    const std::size_t count = end - from;
    Split best;
    for (std::size_t m = 1; m < count; m += 1 + m / 8) {
        const auto fresh = static_cast<double>(m);
        const auto old = static_cast<double>(count - m);
        const double difference =
            (sums[end] - sums[end - m]) / fresh - (sums[end - m] - sums[from]) / old;
        const double errors = std::abs(difference) / std::sqrt(1 / fresh + 1 / old);
        if (errors > best.errors) {
            best = {.newest = m, .errors = errors};
        }
    }
    return best;
}

std::vector<double> sums_of(const std::vector<float>& values) {
    std::vector<double> sums(values.size() + 1, 0.0);
    std::partial_sum(values.begin(), values.end(), sums.begin() + 1, std::plus<double>());
    return sums;
}

/// Means over the local steps of an iteration.
struct Step {
    double samples = 0;
    double work_s = 0;
};
Step step_of(const IterationRecord& record) {
    return {.samples = static_cast<double>(record.samples) / record.steps,
            .work_s = (record.input_s + record.compute_s) / record.steps};
}

/// Time of the work relative to that of a full batch, for a given fixed share.
double work_factor(double share, double batches) {
    return share + (1 - share) * batches;
}

/// The part of an own time at the worker's level that a part of the newest own times is: where
/// these are longer than the level, as when transfers have become longer lately, their share; where
/// the level is longer, the part itself, since a late worker is slow in computing.
double part_at_level(double level_s, double recent_own_s, double recent_part_s) {
    return recent_own_s > 0 ? recent_part_s * std::min(1.0, level_s / recent_own_s) : 0;
}

}  // namespace

OwnTimes::OwnTimes(int workers, std::int64_t batch, double parameter_bytes)
    : batch_(static_cast<double>(batch)),
      parameter_bytes_(parameter_bytes),
      shares_(static_cast<std::size_t>(workers)),
      rows_(static_cast<std::size_t>(workers)) {
}

void OwnTimes::forget(int worker) {
    const auto i = static_cast<std::size_t>(worker);
    rows_.at(i) = {};
    shares_.at(i) = {};
}

void OwnTimes::look(const LoadView& view, const std::vector<int>& live, double now_s) {
    const TelemetryHistory& history = *view.history;
    live_ = live;
    known_ = 0;
    for (const int worker : live_) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        FixedShare& share = shares_[static_cast<std::size_t>(worker)];
        std::size_t fresh = 0;
        while (fresh < history.size(worker) &&
               history.record(worker, fresh).iteration > share.iteration) {
            ++fresh;
        }
        for (; fresh > 0; --fresh) {
            take(share, history.record(worker, fresh - 1), std::max(row.noise, kLeastNoise));
        }
        read(row, worker, history);
        known_ += row.logs.empty() ? 0 : 1;
    }
    if (known_ == 0) {
        return;
    }
    measure_noise();
    for (const int worker : live_) {
        find_state(rows_[static_cast<std::size_t>(worker)]);
    }
    find_levels();
    if (view.running != nullptr) {
        find_late(*view.running, now_s);
    }
}

/// Estimates the fixed share of the work from successive batches of different sizes. Where no share
/// explains their times, the worker's speed has changed, and the estimate stays.
void OwnTimes::take(FixedShare& share, const IterationRecord& record, double noise) const {
    constexpr int kFew = 8;           // records of a mean
    constexpr int kTelling = 4;       // records after a change that are used
    constexpr double kResized = 0.1;  // of logarithms
    constexpr double kKept = 0.5;     // weight of the earlier estimate, at the next change
    constexpr double kFar = 3;        // deviations: the speed has changed
    const auto samples = step_of(record).samples;
    const double work_log = std::log(std::max(step_of(record).work_s, 1e-9));
    share.iteration = record.iteration;
    if (samples != share.samples) {
        const bool resized =
            share.samples > 0 && std::abs(std::log(samples / share.samples)) > kResized;
        share.before_samples = resized ? share.samples : share.before_samples;
        if (resized) {
            share.before_log = share.now_log;
            for (double& cost : share.cost) {
                cost *= kKept;
            }
        }
        share.samples = samples;
        share.now = resized ? 0 : share.now;
    }
    share.now_log += (work_log - share.now_log) / std::min(++share.now, kFew);
    if (share.before_samples == 0 || share.now > kTelling) {
        return;
    }
    for (std::size_t i = 0; i < kShares; ++i) {
        const double fixed = static_cast<double>(i) / (kShares - 1);
        const double expected = std::log(work_factor(fixed, samples / batch_) /
                                         work_factor(fixed, share.before_samples / batch_));
        const double off = std::min(std::abs(work_log - share.before_log - expected) / noise, kFar);
        share.cost[i] += off * off / 2;
    }
}

/// Until batches have differed, work counts as proportional to the batch.
double OwnTimes::fixed_share(int worker) const {
    constexpr double kPrior = 2;  // least gain of log likelihood for a fixed share above 0
    const FixedShare& share = shares_[static_cast<std::size_t>(worker)];
    const double least = *std::ranges::min_element(share.cost);
    const double most = *std::ranges::max_element(share.cost);
    if (most - least < kPrior) {
        return 0;
    }
    double weights = 0;
    double sum = 0;
    for (std::size_t i = 0; i < kShares; ++i) {
        const double weight = std::exp(least - share.cost[i]);
        weights += weight;
        sum += weight * static_cast<double>(i) / (kShares - 1);
    }
    return sum / weights;
}

/// When the servers' network is crowded, the pulls of all workers are slow. Records exclude the
/// delay that all workers have in common; the rate of the pull includes it. A gradient's push is
/// hidden behind backward as far as the network allows; its rate tells how long it takes alone. A
/// delta's push is all visible: how much of a gradient's would be hidden is known from earlier.
OwnTimes::Transfer OwnTimes::transfer_of(const Row& row, const IterationRecord& record) const {
    const auto seconds = [this](double rate) { return rate > 0 ? parameter_bytes_ / rate : 0; };
    const double pull_s = std::max(record.pull_s, seconds(record.use.rx_bytes_s));
    const double push_s = std::max(record.push_s, seconds(record.use.tx_bytes_s));
    const double seen_s = record.steps == 1 ? record.push_s : std::max(0.0, push_s - row.hidden_s);
    return {.visible_s = seen_s + pull_s, .whole_s = push_s + pull_s};
}

/// Of a full batch, without transfers.
double OwnTimes::work_s(int worker, const IterationRecord& record) const {
    const Step step = step_of(record);
    return step.work_s / work_factor(fixed_share(worker), step.samples / batch_);
}

/// The first iteration of a worker is cold: it counts only while there is no other record.
void OwnTimes::read(Row& row, int worker, const TelemetryHistory& history) const {
    constexpr double kNewest = 0.2;  // weight of a transfer
    row.logs.clear();
    row.when_s.clear();
    row.own_s = 0;
    row.transfer_s = 0;
    row.whole_transfer_s = 0;
    const std::size_t count = std::min(history.size(worker), kMemory);
    for (std::size_t age = count; age-- > 0;) {
        const IterationRecord& record = history.record(worker, age);
        const Transfer transfer = transfer_of(row, record);
        const double own_s = work_s(worker, record) + transfer.visible_s;
        if ((record.iteration == 1 && count > 1) || !(own_s > 0)) {
            continue;
        }
        const double weight = row.logs.empty() ? 1 : kNewest;
        row.own_s += weight * (own_s - row.own_s);
        row.transfer_s += weight * (transfer.visible_s - row.transfer_s);
        row.whole_transfer_s += weight * (transfer.whole_s - row.whole_transfer_s);
        if (record.steps == 1) {
            row.hidden_s = std::max(row.hidden_s, transfer.whole_s - transfer.visible_s);
        }
        row.steps = record.steps;
        row.logs.push_back(static_cast<float>(std::log(own_s)));
        row.when_s.push_back(record.arrived_s);
    }
    const auto size = static_cast<std::ptrdiff_t>(row.logs.size());
    const std::vector<double> sums = sums_of(row.logs);
    row.local.resize(row.logs.size());
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        const auto begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, i - kAround));
        const auto end = static_cast<std::size_t>(std::min(size, i + kAround + 1));
        const double mean = (sums[end] - sums[begin]) / static_cast<double>(end - begin);
        row.local[static_cast<std::size_t>(i)] =
            static_cast<float>(row.logs[static_cast<std::size_t>(i)] - mean);
    }
}

/// Noise between successive times, so that a change of level disturbs only two of them; pooled over
/// all workers where one worker has few records.
void OwnTimes::measure_noise() {
    double pooled = kPriorWeight * kFirstNoise * kFirstNoise;
    double weight = kPriorWeight;
    for (const int worker : live_) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        row.noise = 0;
        std::vector<double> distances;
        for (std::size_t i = 1; i < row.logs.size(); ++i) {
            distances.push_back(std::abs(row.logs[i] - row.logs[i - 1]));
        }
        if (!distances.empty()) {
            const auto count = static_cast<double>(distances.size());
            row.noise = deviation_of(std::move(distances));
            pooled += count * row.noise * row.noise;
            weight += count;
        }
    }
    pooled /= weight;
    variation_ = 0;
    for (const int worker : live_) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        const auto count = static_cast<double>(row.logs.empty() ? 0 : row.logs.size() - 1);
        const double square =
            (count * row.noise * row.noise + kPooled * pooled) / (count + kPooled);
        row.noise = std::max(std::sqrt(square), kLeastNoise);
        variation_ += row.noise / static_cast<double>(live_.size());
    }
}

/// Finds the largest change, then a newer change among the records after it, until there is none.
void OwnTimes::find_state(Row& row) const {
    row.changed = false;
    row.age = row.logs.size();
    if (row.logs.empty()) {
        return;
    }
    const std::vector<double> sums = sums_of(row.logs);
    for (Split split = best_split(sums, 0); split.errors > kSure * row.noise;
         split = best_split(sums, row.logs.size() - row.age)) {
        row.changed = true;
        row.age = split.newest;
    }
    row.mean = (sums.back() - sums[row.logs.size() - row.age]) / static_cast<double>(row.age);
}

void OwnTimes::find_levels() {
    std::vector<double> means;
    for (const int worker : live_) {
        const Row& row = rows_[static_cast<std::size_t>(worker)];
        if (!row.logs.empty()) {
            means.push_back(row.mean);
        }
    }
    common_ = upper_median(std::move(means));
    for (const int worker : live_) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        const double error =
            row.noise / std::sqrt(static_cast<double>(std::max<std::size_t>(row.age, 1)));
        row.level = row.logs.empty() ? common_ : common_ + garrote(row.mean - common_, error);
    }
}

double OwnTimes::allowed_s(int worker, const ActiveIterations& running) const {
    const Row& row = rows_[static_cast<std::size_t>(worker)];
    const double batches = static_cast<double>(running.samples(worker)) / (row.steps * batch_);
    const double level_s = std::exp(row.level);
    const double transfer_s = part_at_level(level_s, row.own_s, row.transfer_s);
    const double own_s =
        transfer_s + row.steps * (level_s - transfer_s) * work_factor(fixed_share(worker), batches);
    return own_s * std::exp(kSure * std::max(row.noise, kRunningNoise)) +
           std::max(running.beside_s(worker), 0.0) + kSure * running.beside_noise_s(worker);
}

/// When most are late it is nobody's fault.
void OwnTimes::find_late(const ActiveIterations& running, double now_s) {
    std::vector<int> late;
    for (const int worker : live_) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        const std::optional<double> begun_s = running.begun_s(worker);
        if (!begun_s) {
            continue;
        }
        const double lasted_s = now_s - *begun_s;
        row.begun_s = -1;
        if (lasted_s * (1 + kRounding) >= allowed_s(worker, running)) {
            row.looked_s = lasted_s;
            row.begun_s = *begun_s;
            late.push_back(worker);
        }
    }
    if (2 * late.size() > live_.size()) {
        return;
    }
    for (const int worker : late) {
        Row& row = rows_[static_cast<std::size_t>(worker)];
        const double longer = row.looked_s / allowed_s(worker, running);
        const double usual = row.level + kSure * std::max(row.noise, kRunningNoise);
        row.changed = true;
        row.age = 1;
        row.level = usual + std::log(kAgain * longer);
    }
}

std::optional<double> OwnTimes::wake_at(const ActiveIterations& running) const {
    std::optional<double> first_s;
    if (!ready()) {
        return first_s;
    }
    for (const int worker : live_) {
        const std::optional<double> begun_s = running.begun_s(worker);
        if (!begun_s) {
            continue;
        }
        const Row& row = rows_[static_cast<std::size_t>(worker)];
        const double wait_s =
            row.begun_s == *begun_s ? kLater * row.looked_s : allowed_s(worker, running);
        first_s = std::min(first_s.value_or(*begun_s + wait_s), *begun_s + wait_s);
    }
    return first_s;
}

LoadEstimate OwnTimes::estimate() const {
    LoadEstimate load{.cost = std::vector<CostLine>(rows_.size()),
                      .visible_transfer_s = std::vector<double>(rows_.size()),
                      .transfer_s = std::vector<double>(rows_.size())};
    for (const int worker : live_) {
        const auto i = static_cast<std::size_t>(worker);
        const double level_s = std::exp(rows_[i].level);
        const double transfer_s = part_at_level(level_s, rows_[i].own_s, rows_[i].transfer_s);
        const double fixed = fixed_share(worker) * (level_s - transfer_s);
        load.visible_transfer_s[i] = transfer_s;
        load.transfer_s[i] = part_at_level(level_s, rows_[i].own_s, rows_[i].whole_transfer_s);
        load.cost[i] = {.fixed_s = transfer_s + fixed,
                        .sample_s = (level_s - transfer_s - fixed) / batch_};
    }
    return load;
}

double OwnTimes::state_age() const noexcept {
    double age = kMemory;
    for (const int worker : live_) {
        const Row& row = rows_[static_cast<std::size_t>(worker)];
        age = std::min(age, static_cast<double>(std::max<std::size_t>(row.age, 1)));
    }
    return age;
}

TimeDraws OwnTimes::draw(int replicates, int iterations, std::uint64_t seed) const {
    TimeDraws draws{.replicates = replicates, .iterations = iterations, .factors = {}};
    const auto rows = static_cast<std::size_t>(std::int64_t{replicates} * iterations);
    draws.factors.assign(rows * rows_.size(), 1.0F);
    double first_s = 0;
    double last_s = 0;
    for (const int worker : live_) {
        const Row& row = rows_[static_cast<std::size_t>(worker)];
        if (!row.when_s.empty()) {
            last_s = std::max(last_s, row.when_s.back());
            first_s = std::max(first_s, row.when_s.front());
        }
    }
    std::mt19937_64 dice(seed);
    double moment_s = first_s;
    for (std::size_t at = 0; at < rows; ++at) {
        const auto iteration = at % static_cast<std::size_t>(iterations);
        if (iteration % kBlock == 0) {
            moment_s = first_s + (last_s - first_s) * std::generate_canonical<double, 53>(dice);
        }
        for (const int worker : live_) {
            const auto i = static_cast<std::size_t>(worker);
            const Row& row = rows_[i];
            if (row.logs.empty()) {
                continue;
            }
            const auto begin = std::ranges::lower_bound(row.when_s, moment_s);
            const auto step = static_cast<std::size_t>(begin - row.when_s.begin());
            const std::size_t k = (step + iteration % kBlock) % row.logs.size();
            const double log = !row.changed          ? row.logs[k] - row.mean
                               : iteration < row.age ? row.local[k]
                                                     : row.logs[k] - row.level;
            draws.factors[at * rows_.size() + i] = static_cast<float>(std::exp(log));
        }
    }
    return draws;
}

double OwnTimes::slowness(int worker) const {
    return std::exp(rows_.at(static_cast<std::size_t>(worker)).level - common_);
}

std::vector<int> OwnTimes::slow() const {
    std::vector<int> slow;
    std::ranges::copy_if(live_, std::back_inserter(slow),
                         [this](int worker) { return slowness(worker) >= kSlow; });
    return slow;
}

}  // namespace cohort
