#include "sim/job/job_records.hpp"

#include <limits>
#include <utility>

namespace cohort {
namespace {

/// Reference batches that the lag histogram covers; more is in its last bin.
constexpr std::size_t kLagBatches = 16;

template <class Record>
void keep(std::vector<Record>& kept, std::size_t most, std::vector<Record> news) {
    for (Record& record : news) {
        if (kept.size() < most) {
            kept.push_back(std::move(record));
        }
    }
}

/// Of accuracy: from here to the target the whole test set decides.
constexpr double kNearTarget = 0.01;

}  // namespace

JobRecords::JobRecords(SimulationResult& result, std::size_t records)
    : result_(result), most_records_(records) {
    result_.lag_histogram.assign(kLagBatches * SimulationResult::kLagBins + 1, 0);
}

void JobRecords::timed(const IterationRecord& record) {
    if (result_.records.size() < most_records_) {
        result_.records.push_back(record);
    }
}

void JobRecords::settled(const PushOutcome& outcome) {
    if (!outcome.returned) {
        const double bin = outcome.lag * SimulationResult::kLagBins;
        const std::size_t last = result_.lag_histogram.size() - 1;
        ++result_.lag_histogram[bin < static_cast<double>(last) ? static_cast<std::size_t>(bin)
                                                                : last];
    }
}

void JobRecords::collect(TrainingSession& session) {
    constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
    keep(result_.switches, kAll, session.modes().take_reports());
    keep(result_.decisions, SimulationResult::kDecisions, session.modes().take_decisions());
    keep(result_.windows, SimulationResult::kWindows, session.modes().take_windows());
    if (session.load() == nullptr) {
        return;
    }
    for (const StragglerNews::Item& news : session.load()->straggler_news().take()) {
        const bool over = news.kind != StragglerNews::Kind::kBegun;
        if (over && result_.stragglers.size() < SimulationResult::kStragglers) {
            result_.stragglers.push_back(news.episode);
        }
    }
}

bool VirtualEvaluations::updated(double now_s, std::int64_t samples_applied) {
    updated_s_ = now_s;
    samples_applied_ = samples_applied;
    whole_ = false;
    const std::int64_t every = spec_.eval_every_samples;
    if (every <= 0 || samples_applied < next_) {
        return false;
    }
    next_ = (samples_applied / every + 1) * every;
    const double target = spec_.target_accuracy;
    if (spec_.eval_samples > 0) {
        const double first = evaluate(spec_.eval_samples);
        if (target <= 0 || first < target - kNearTarget) {
            return false;
        }
    }
    const double decides = evaluate(0);
    return target > 0 && decides >= target;
}

/// The time to the target is the time of the first update that reaches it on the whole test set,
/// also when that is found out at the end.
/// @return the accuracy that is to reach the target
double VirtualEvaluations::evaluate(std::int64_t samples) {
    const Learner::Accuracy found = learner_.evaluate(samples);
    EvaluationPoint point{.virtual_s = updated_s_,
                          .samples_applied = samples_applied_,
                          .accuracy = found.accuracy,
                          .loss = found.loss,
                          .test_samples = found.samples};
    log_.add(EventLog::Kind::kEvaluation, updated_s_, found.accuracy, found.loss, found.samples);
    if (spec_.eval_average) {
        const Learner::Accuracy mean = learner_.evaluate_average(samples);
        point.average_accuracy = mean.accuracy;
        point.average_loss = mean.loss;
    }
    result_.evaluations.push_back(point);
    const double decides =
        spec_.target_on_average ? point.average_accuracy.value_or(0) : found.accuracy;
    if (samples > 0) {
        return decides;
    }
    whole_ = true;
    result_.accuracy = found.accuracy;
    result_.loss = found.loss;
    if (spec_.target_accuracy > 0 && decides >= spec_.target_accuracy && !result_.tta_virtual_s) {
        result_.tta_virtual_s = updated_s_;
        result_.samples_to_target = samples_applied_;
    }
    return decides;
}

void VirtualEvaluations::end() {
    if (spec_.eval_every_samples > 0 && !whole_) {
        evaluate(0);
    }
}

WorkerLanes::WorkerLanes(SimulationResult& result, int workers, std::size_t most)
    : result_(result), most_(most) {
    for (std::vector<double>* sums : {&result.worker_busy_s, &result.worker_wait_s,
                                      &result.worker_cpu_s, &result.worker_bytes}) {
        sums->assign(static_cast<std::size_t>(workers), 0);
    }
}

void WorkerLanes::span(int worker, LaneSpan::Kind kind, double begin_s, double end_s) {
    if (end_s <= begin_s) {
        return;
    }
    const auto index = static_cast<std::size_t>(worker);
    if (kind == LaneSpan::Kind::kInput || kind == LaneSpan::Kind::kCompute) {
        result_.worker_busy_s.at(index) += end_s - begin_s;
    } else if (kind == LaneSpan::Kind::kWait) {
        result_.worker_wait_s.at(index) += end_s - begin_s;
    }
    if (result_.lanes.size() < most_) {
        result_.lanes.push_back(
            {.worker = worker, .kind = kind, .begin_s = begin_s, .end_s = end_s});
    }
}

void WorkerLanes::used(int worker, double cpu_core_s, double bytes) {
    result_.worker_cpu_s.at(static_cast<std::size_t>(worker)) += cpu_core_s;
    result_.worker_bytes.at(static_cast<std::size_t>(worker)) += bytes;
}

}  // namespace cohort
