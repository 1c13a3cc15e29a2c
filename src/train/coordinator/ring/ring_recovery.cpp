#include "train/coordinator/ring/ring_recovery.hpp"

#include <algorithm>

namespace cohort {

bool RingRecovery::has_answered(int worker) const {
    return std::any_of(answers_.begin(), answers_.end(),
                       [worker](const Recovered& answer) { return answer.worker == worker; });
}

std::uint64_t RingRecovery::newest_round() const {
    std::uint64_t newest = 0;
    for (const Recovered& answer : answers_) {
        newest = std::max(newest, answer.round);
    }
    return newest;
}

int RingRecovery::find_giver() {
    const std::uint64_t newest = newest_round();
    for (const Recovered& answer : answers_) {
        if (answer.round == newest && answer.report.round == newest) {
            report_ = answer.report;
        }
    }
    return std::find_if(answers_.begin(), answers_.end(),
                        [newest](const Recovered& answer) { return answer.round == newest; })
        ->worker;
}

std::vector<int> RingRecovery::behind() const {
    std::vector<int> workers;
    for (const Recovered& answer : answers_) {
        if (answer.round < newest_round()) {
            workers.push_back(answer.worker);
        }
    }
    return workers;
}

std::vector<int> RingRecovery::completed() const {
    std::vector<int> workers;
    for (const Recovered& answer : answers_) {
        if (answer.report.round == newest_round()) {
            workers.push_back(answer.worker);
        }
    }
    return workers;
}

bool RingRecovery::brings(std::uint64_t order) const {
    return std::find(bringing_.begin(), bringing_.end(), order) != bringing_.end();
}

}  // namespace cohort
