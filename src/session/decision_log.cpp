#include "session/decision_log.hpp"

#include <utility>

namespace cohort {

void DecisionLog::made(DecisionRecord record, const RunMoment& now, std::string from,
                       std::string to) {
    closed(now);
    record.seconds = now.seconds;
    record.samples = now.samples;
    record.from = std::move(from);
    record.to = std::move(to);
    loss_ = now.loss;
    open_ = std::move(record);
}

void DecisionLog::took(double seconds) {
    if (open_) {
        open_->decide_s = seconds;
    }
}

void DecisionLog::closed(const RunMoment& now) {
    if (!open_) {
        return;
    }
    open_->held_s = now.seconds - open_->seconds;
    if (open_->held_s > 0) {
        const auto samples = static_cast<double>(now.samples - open_->samples);
        open_->measured_samples_s = samples / open_->held_s;
        const bool known = now.loss > 0 && loss_ > 0;
        open_->measured_loss_fall_s = known ? (loss_ - now.loss) / open_->held_s : 0;
    }
    complete_.push_back(*std::exchange(open_, std::nullopt));
}

std::vector<DecisionRecord> DecisionLog::take() {
    return std::exchange(complete_, {});
}

}  // namespace cohort
