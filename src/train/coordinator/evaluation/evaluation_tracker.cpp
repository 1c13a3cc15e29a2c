#include "train/coordinator/evaluation/evaluation_tracker.hpp"

#include <algorithm>

namespace cohort {

EvaluationTracker::EvaluationTracker(std::int64_t every, std::int64_t evaluated_at)
    : every_(every), started_at_(evaluated_at), started_before_(evaluated_at) {
}

bool EvaluationTracker::due(std::int64_t samples) const {
    return !running_ && samples / every_ > started_at_ / every_;
}

std::uint64_t EvaluationTracker::start() {
    running_ = true;
    taken_ = false;
    report_ = {};
    parts_.clear();
    return ++id_;
}

void EvaluationTracker::taken(const TrainProgress& progress, std::int64_t samples, int parts,
                              bool pauses) {
    started_before_ = started_at_;
    started_at_ = samples;
    pauses_ = pauses;
    taken_ = true;
    parts_.resize(static_cast<std::size_t>(parts));  // some may be here
    report_.samples_applied = samples;
    report_.updates = progress.updates;
    report_.train_seconds = progress.train_seconds;
}

std::optional<EvaluationReport> EvaluationTracker::part(const EvaluatedPart& part) {
    const auto index = static_cast<std::size_t>(part.part);
    if (!running_ || part.id != id_ || (taken_ && index >= parts_.size())) {
        return std::nullopt;
    }
    parts_.resize(std::max(parts_.size(), index + 1));
    parts_[index] = part;
    if (!taken_ || !missing().empty()) {
        return std::nullopt;
    }
    running_ = false;
    double loss_sum = 0;  // in the order of the parts, not of their arrival
    double correct = 0;
    for (const auto& one : parts_) {
        loss_sum += one->loss_sum;
        correct += one->correct;
        report_.samples += one->samples;
        report_.seconds = pauses_ ? std::max(report_.seconds, one->seconds) : 0;
    }
    const double samples = static_cast<double>(std::max<std::int64_t>(report_.samples, 1));
    report_.accuracy = correct / samples;
    report_.loss = loss_sum / samples;
    return report_;
}

void EvaluationTracker::abandon() {
    running_ = false;
}

void EvaluationTracker::give_up() {
    if (running_ && taken_) {
        started_at_ = started_before_;
    }
    running_ = false;
}

std::vector<int> EvaluationTracker::missing() const {
    std::vector<int> missing;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        if (!parts_[i]) {
            missing.push_back(static_cast<int>(i));
        }
    }
    return missing;
}

}  // namespace cohort
