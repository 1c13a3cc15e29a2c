#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/sched/decision_book.hpp"

namespace cohort {

void DecisionBook::made(DecisionRecord record, const RunMoment& now, std::string from,
                        std::string to) {
    closed(now);
    record.seconds = now.seconds;
    record.samples = now.samples;
    record.from = std::move(from);
    record.to = std::move(to);
    loss_ = now.loss;
    open_ = std::move(record);
}

void DecisionBook::took(double seconds) {
    if (open_) {
        open_->decide_s = seconds;
    }
}

void DecisionBook::closed(const RunMoment& now) {
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

std::vector<DecisionRecord> DecisionBook::take() {
    return std::exchange(complete_, {});
}

std::string chooser_in_label(const std::string& label) {
    const std::size_t bracket = label.find(" (");
    return bracket == std::string::npos ? "" : label.substr(0, bracket);
}

std::string plan_in_label(const std::string& label) {
    const std::size_t bracket = label.find(" (");
    return bracket == std::string::npos ? label
                                        : label.substr(bracket + 2, label.size() - bracket - 3);
}

const Candidate* chosen_candidate(const DecisionRecord& decision) {
    const std::string plan = plan_in_label(decision.to);
    const auto found = std::find_if(decision.candidates.begin(), decision.candidates.end(),
                                    [&plan](const Candidate& c) { return c.plan == plan; });
    return found == decision.candidates.end() ? nullptr : &*found;
}

std::string runner_up_of(const DecisionRecord& decision) {
    const Candidate* const chosen = chosen_candidate(decision);
    for (const Candidate& one : decision.candidates) {
        if (chosen == nullptr || one.plan != chosen->plan) {
            return chosen != nullptr && chosen->rate > 0
                       ? fmt::format("{} ({:+.0f} %)", one.plan,
                                     100 * (one.rate / chosen->rate - 1))
                       : one.plan;
        }
    }
    return "";
}

std::string describe(const DecisionRecord& decision) {
    const Candidate* const chosen = chosen_candidate(decision);
    std::string line =
        fmt::format("{}: {} held for {:.1f} s with {:.0f} samples/s", decision.chooser,
                    plan_in_label(decision.to), decision.held_s, decision.measured_samples_s);
    if (chosen != nullptr) {
        line += fmt::format(", {:.0f} predicted", chosen->samples_s);
    }
    return decision.kept ? line + "; " + decision.reason : line;
}

}  // namespace cohort
