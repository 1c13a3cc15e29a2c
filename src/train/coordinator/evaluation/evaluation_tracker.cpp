#include "train/coordinator/evaluation/evaluation_tracker.hpp"

#include <algorithm>

namespace cohort {

EvaluationTracker::EvaluationTracker(std::int64_t every, std::int64_t evaluated_at)
    : every_(every), started_at_(evaluated_at) {
}

bool EvaluationTracker::due(std::int64_t samples) const {
    return samples / every_ > started_at_ / every_ &&
           std::ranges::all_of(running_,
                               [](const Running& one) { return one.taken && one.pauses; });
}

bool EvaluationTracker::running(std::uint64_t id) const {
    return std::ranges::find(running_, id, &Running::id) != running_.end();
}

std::uint64_t EvaluationTracker::start() {
    running_.push_back({.id = ++last_id_, .parts = {}, .report = {}});
    return last_id_;
}

void EvaluationTracker::taken(const TrainProgress& progress, std::int64_t samples, int parts,
                              bool pauses) {
    Running& one = running_.back();
    one.taken = true;
    one.pauses = pauses;
    one.started_before = started_at_;
    one.parts.resize(static_cast<std::size_t>(parts));  // some may be here
    one.report.samples_applied = samples;
    one.report.updates = progress.updates;
    one.report.train_seconds = progress.train_seconds;
    started_at_ = samples;
}

std::optional<EvaluationReport> EvaluationTracker::part(const EvaluatedPart& part) {
    const auto one = std::ranges::find(running_, part.id, &Running::id);
    const auto index = static_cast<std::size_t>(part.part);
    if (one == running_.end() || (one->taken && index >= one->parts.size())) {
        return std::nullopt;
    }
    one->parts.resize(std::max(one->parts.size(), index + 1));
    one->parts[index] = part;
    if (!one->taken || !one->missing().empty()) {
        return std::nullopt;
    }
    const EvaluationReport report = one->finished();
    running_.erase(one);
    return report;
}

EvaluationReport EvaluationTracker::Running::finished() {
    double loss_sum = 0;  // in the order of the parts, not of their arrival
    double correct = 0;
    for (const auto& one : parts) {
        loss_sum += one->loss_sum;
        correct += one->correct;
        report.samples += one->samples;
        report.seconds = pauses ? std::max(report.seconds, one->seconds) : 0;
    }
    const double samples = static_cast<double>(std::max<std::int64_t>(report.samples, 1));
    report.accuracy = correct / samples;
    report.loss = loss_sum / samples;
    return report;
}

void EvaluationTracker::give_up() {
    const auto first =
        std::ranges::find_if(running_, [](const Running& one) { return one.pauses && one.taken; });
    if (first != running_.end()) {
        started_at_ = first->started_before;
    }
    std::erase_if(running_, [](const Running& one) { return one.pauses; });
}

bool EvaluationTracker::pausing() const noexcept {
    return std::ranges::any_of(running_, &Running::pauses);
}

std::vector<int> EvaluationTracker::missing() const {
    const auto first = std::ranges::find_if(running_, &Running::pauses);
    return first == running_.end() ? std::vector<int>() : first->missing();
}

std::vector<int> EvaluationTracker::Running::missing() const {
    std::vector<int> missing;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i]) {
            missing.push_back(static_cast<int>(i));
        }
    }
    return missing;
}

}  // namespace cohort
