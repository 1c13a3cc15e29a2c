#include "sim/job/job_records.hpp"

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

JobRecords::JobRecords(std::size_t records)
    : most_records_(records), lag_histogram_(kLagBatches * SimulationResult::kLagBins + 1, 0) {
}

void JobRecords::timed(const IterationRecord& record) {
    if (records_.size() < most_records_) {
        records_.push_back(record);
    }
}

void JobRecords::settled(const PushOutcome& outcome) {
    if (!outcome.returned) {
        const double bin = outcome.lag * SimulationResult::kLagBins;
        const std::size_t last = lag_histogram_.size() - 1;
        ++lag_histogram_[bin < static_cast<double>(last) ? static_cast<std::size_t>(bin) : last];
    }
}

void JobRecords::collect(TrainingSession& session) {
    for (SwitchReport& change : session.modes().take_reports()) {
        switches_.push_back(std::move(change));
    }
    keep(decisions_, SimulationResult::kDecisions, session.modes().take_decisions());
    keep(windows_, SimulationResult::kWindows, session.modes().take_windows());
    if (session.load() == nullptr) {
        return;
    }
    for (const StragglerNews::Item& news : session.load()->straggler_news().take()) {
        const bool over = news.kind != StragglerNews::Kind::kBegun;
        if (over && stragglers_.size() < SimulationResult::kStragglers) {
            stragglers_.push_back(news.episode);
        }
    }
}

void JobRecords::report(SimulationResult& result) const {
    result.records = records_;
    result.switches = switches_;
    result.decisions = decisions_;
    result.windows = windows_;
    result.stragglers = stragglers_;
    result.lag_histogram = lag_histogram_;
}

bool VirtualEvaluations::updated(double now_s, std::int64_t samples_applied) {
    updated_s_ = now_s;
    samples_applied_ = samples_applied;
    last_.reset();
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
    points_.push_back(point);
    const double decides =
        spec_.target_on_average ? point.average_accuracy.value_or(0) : found.accuracy;
    if (samples > 0) {
        return decides;
    }
    last_ = found;
    if (spec_.target_accuracy > 0 && decides >= spec_.target_accuracy && !tta_s_) {
        tta_s_ = updated_s_;
        samples_to_target_ = samples_applied_;
    }
    return decides;
}

void VirtualEvaluations::end() {
    if (spec_.eval_every_samples > 0 && !last_) {
        evaluate(0);
    }
}

void VirtualEvaluations::report(SimulationResult& result) const {
    result.tta_virtual_s = tta_s_;
    result.samples_to_target = samples_to_target_;
    if (last_) {
        result.accuracy = last_->accuracy;
        result.loss = last_->loss;
    }
    result.evaluations = points_;
}

void WorkerLanes::span(int worker, LaneSpan::Kind kind, double begin_s, double end_s) {
    if (end_s <= begin_s) {
        return;
    }
    Totals& total = totals_.at(static_cast<std::size_t>(worker));
    switch (kind) {
        case LaneSpan::Kind::kInput:
        case LaneSpan::Kind::kCompute: total.busy_s += end_s - begin_s; break;
        case LaneSpan::Kind::kWait: total.wait_s += end_s - begin_s; break;
        default: break;
    }
    if (spans_.size() < most_) {
        spans_.push_back({.worker = worker, .kind = kind, .begin_s = begin_s, .end_s = end_s});
    }
}

void WorkerLanes::used(int worker, double cpu_core_s, double bytes) {
    Totals& total = totals_.at(static_cast<std::size_t>(worker));
    total.cpu_core_s += cpu_core_s;
    total.bytes += bytes;
}

}  // namespace cohort
