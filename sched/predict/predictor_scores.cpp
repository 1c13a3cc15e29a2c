// Each prediction waits for the worker's next kMaxHorizon records and is judged at kHorizons. Cost
// of a record: at most kMaxHorizon waiting predictions of its worker and a look at each worker's
// last times; of a forecast: two passes over it.
#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "cohort/sched/predictor.hpp"

namespace cohort {
namespace {

constexpr double kStraggler = 1.2;  ///< times the minimum
constexpr std::size_t kNewest = 3;  ///< own times whose median counts for a worker

/// A prediction for a worker that waits for the worker's records.
struct Waiting {
    std::array<float, kHorizons.size()> own_s{};     ///< at each horizon
    std::array<bool, kHorizons.size()> straggler{};  ///< within each horizon
    int age = 0;                                     ///< records since the prediction
    bool came = false;                               ///< the worker was a straggler in one of them
};

struct Worker {
    std::deque<Waiting> waiting;
    bool pushed = false;  ///< has pushed since its last prediction that counted
    std::array<double, kNewest> newest{};
    std::size_t count = 0;

    void add(double own_s) { newest.at(count++ % kNewest) = own_s; }
    /// Median of its last three times; the newest while there are fewer.
    [[nodiscard]] double median() const {
        const auto [a, b, c] = newest;
        return count < kNewest ? newest.at(count - 1)
                               : std::max(std::min(a, b), std::min(std::max(a, b), c));
    }
};

double share(std::int64_t part, std::int64_t of) {
    return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
}

void set_shares(PredictorScore& score) {
    score.precision = share(score.hits, score.hits + score.false_alarms);
    score.recall = share(score.hits, score.hits + score.misses);
    score.f1 = share(2 * score.hits, 2 * score.hits + score.false_alarms + score.misses);
}

}  // namespace

void PredictorScore::merge(const PredictorScore& other) {
    const std::int64_t both = predictions + other.predictions;
    if (both > 0) {
        relative_error = (relative_error * static_cast<double>(predictions) +
                          other.relative_error * static_cast<double>(other.predictions)) /
                         static_cast<double>(both);
    }
    predictions = both;
    hits += other.hits;
    false_alarms += other.false_alarms;
    misses += other.misses;
    set_shares(*this);
}

struct PredictorScores::Impl {
    std::int64_t batch = 1;
    std::vector<Worker> workers;
    std::vector<PredictorScore> scores;  ///< by horizon; the error is a sum, shares are not set

    void settle(const Waiting& one, std::size_t horizon, double own_s) {
        PredictorScore& count = scores.at(horizon);
        ++count.predictions;
        count.relative_error +=
            std::abs(static_cast<double>(one.own_s.at(horizon)) - own_s) / own_s;
        const bool predicted = one.straggler.at(horizon);
        count.hits += predicted && one.came ? 1 : 0;
        count.false_alarms += predicted && !one.came ? 1 : 0;
        count.misses += !predicted && one.came ? 1 : 0;
    }

    /// Minimum of the workers' medians.
    [[nodiscard]] double least() const {
        double least = 0;
        for (const Worker& each : workers) {
            const double median = each.count > 0 ? each.median() : 0;
            if (median > 0 && (least == 0 || median < least)) {
                least = median;
            }
        }
        return least;
    }
};

PredictorScores::PredictorScores(const std::string& predictor, int workers, std::int64_t batch)
    : impl_(std::make_unique<Impl>()) {
    for (const int horizon : kHorizons) {
        impl_->scores.push_back({.predictor = predictor, .horizon = horizon});
    }
    impl_->batch = batch;
    impl_->workers.resize(static_cast<std::size_t>(workers));
}

PredictorScores::~PredictorScores() = default;
PredictorScores::PredictorScores(PredictorScores&&) noexcept = default;
PredictorScores& PredictorScores::operator=(PredictorScores&&) noexcept = default;

void PredictorScores::predicted(const Forecast& forecast) {
    std::array<float, kMaxHorizon> least{};
    for (const std::vector<float>& row : forecast.own_s) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            least.at(i) = least.at(i) > 0 ? std::min(least.at(i), row[i]) : row[i];
        }
    }
    for (std::size_t at = 0; at < impl_->workers.size(); ++at) {
        Worker& worker = impl_->workers[at];
        const std::vector<float>& row = forecast.own_s.at(at);
        if (row.size() < kMaxHorizon || !std::exchange(worker.pushed, false)) {
            continue;
        }
        Waiting one;
        bool slow = false;
        std::size_t horizon = 0;
        for (std::size_t i = 0; i < row.size() && horizon < kHorizons.size(); ++i) {
            slow =
                slow || static_cast<double>(row[i]) > kStraggler * static_cast<double>(least.at(i));
            if (static_cast<int>(i) + 1 == kHorizons.at(horizon)) {
                one.own_s.at(horizon) = row[i];
                one.straggler.at(horizon++) = slow;
            }
        }
        worker.waiting.push_back(one);
    }
}

void PredictorScores::came(const IterationRecord& record) {
    const double own_s = record.own_s(impl_->batch);
    if (!(own_s > 0)) {
        return;
    }
    Worker& worker = impl_->workers.at(static_cast<std::size_t>(record.worker));
    worker.add(own_s);
    worker.pushed = true;
    const bool straggler = own_s > kStraggler * impl_->least();
    for (Waiting& one : worker.waiting) {
        ++one.age;
        one.came = one.came || straggler;
        const auto* const horizon = std::ranges::find(kHorizons, one.age);
        if (horizon != kHorizons.end()) {
            impl_->settle(one, static_cast<std::size_t>(horizon - kHorizons.begin()), own_s);
        }
    }
    while (!worker.waiting.empty() && worker.waiting.front().age >= kMaxHorizon) {
        worker.waiting.pop_front();
    }
}

void PredictorScores::forget(int worker) {
    impl_->workers.at(static_cast<std::size_t>(worker)) = {};
}

std::vector<PredictorScore> PredictorScores::scores() const {
    std::vector<PredictorScore> scores = impl_->scores;
    for (PredictorScore& score : scores) {
        score.relative_error /= static_cast<double>(std::max<std::int64_t>(score.predictions, 1));
        set_shares(score);
    }
    return scores;
}

std::vector<PredictorScore> replay_scores(Predictor& predictor,
                                          std::span<const IterationRecord> records, int workers,
                                          std::int64_t batch) {
    PredictorScores scores(std::string(predictor.name()), workers, batch);
    for (const IterationRecord& record : records) {
        scores.came(record);
        predictor.add(record);
        scores.predicted(predictor.predict());
    }
    return scores.scores();
}

}  // namespace cohort
