#include "comm/world/agreement.hpp"

#include <fmt/format.h>

#include <utility>

#include "cohort/comm/messenger.hpp"
#include "core/bytes.hpp"

namespace cohort {
namespace {

/// Done, then asked to be queued again, then errors.
int severity(ExitCode code) {
    switch (code) {
        case ExitCode::kDone: return 0;
        case ExitCode::kRequeue: return 1;
        default: return 1 + static_cast<int>(code);
    }
}

}  // namespace

Verdict combine(const std::vector<Verdict>& verdicts) {
    Verdict result;
    std::vector<std::pair<std::string, std::vector<std::size_t>>> said;
    for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
        const Verdict& verdict = verdicts[rank];
        if (severity(verdict.code) > severity(result.code)) {
            result.code = verdict.code;
        }
        if (verdict.message.empty()) {
            continue;
        }
        auto known = said.begin();
        while (known != said.end() && known->first != verdict.message) {
            ++known;
        }
        if (known == said.end()) {
            known = said.insert(said.end(), {verdict.message, {}});
        }
        known->second.push_back(rank);
    }
    for (const auto& [message, ranks] : said) {
        result.message += result.message.empty() ? "" : "\n";
        result.message += message;
        if (ranks.size() == verdicts.size()) {
            continue;  // all ranks say so
        }
        result.message +=
            fmt::format(" ({} {})", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
    }
    return result;
}

std::uint32_t Agreement::arrive(Verdict own, bool last) {
    std::uint32_t sequence = 0;
    {
        const std::lock_guard lock(mutex_);
        sequence = ++sequence_;
    }
    commands_.post([this, sequence, last, own = std::move(own)] {
        last_ = last ? sequence : last_;
        if (network_.rank() == 0) {
            arrived(sequence, 0, own);
        } else {
            network_.control->send(0, {.type = PacketType::kArrived, .sequence = sequence},
                                   encode(own));
        }
    });
    return sequence;
}

Verdict Agreement::wait(std::uint32_t sequence, std::string_view name) {
    const auto named = board_.begin(name, sequence, [=, this] {
        if (network_.rank() != 0) {
            return std::vector<int>{0};  // rank 0 knows which others are late
        }
        const std::lock_guard lock(mutex_);
        const auto found = collecting_.find(sequence);
        return found == collecting_.end() ? std::vector<int>() : missing(found->second);
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.contains(sequence) || given_up_; });
    if (!results_.contains(sequence)) {
        throw WorldLost(*given_up_);
    }
    Verdict verdict = std::move(results_.at(sequence));
    results_.erase(sequence);
    lock.unlock();
    return verdict;
}

Verdict Agreement::agree(Verdict own, std::string_view name) {
    return wait(arrive(std::move(own), false), name);
}

Verdict Agreement::agree_on_end() {
    return wait(arrive({}, true), "end of the job");
}

bool Agreement::agree_within(std::chrono::milliseconds limit) {
    const std::uint32_t sequence = arrive({}, false);
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return results_.contains(sequence); });
}

void Agreement::give_up(const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        given_up_ = reason;
    }
    changed_.notify_all();
}

std::vector<int> Agreement::missing(const Arrivals& arrivals) const {
    std::vector<int> late;
    for (int rank = 0; rank < network_.map().size(); ++rank) {
        if (!arrivals.contains(rank) && !network_.members.excluded(rank)) {
            late.push_back(rank);
        }
    }
    return late;
}

void Agreement::arrived(std::uint32_t sequence, int rank, Verdict verdict) {
    std::optional<Verdict> past;
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = past_.find(sequence); found != past_.end()) {
            past = found->second;
        } else {
            collecting_[sequence].insert_or_assign(rank, std::move(verdict));
        }
    }
    if (past) {
        network_.control->send(rank, {.type = PacketType::kAgreed, .sequence = sequence},
                               encode(*past));
    }
    conclude();
}

std::map<std::uint32_t, Agreement::Arrivals> Agreement::take_complete() {
    const std::lock_guard lock(mutex_);
    std::map<std::uint32_t, Arrivals> complete;
    for (auto at = collecting_.begin(); at != collecting_.end();) {
        const auto next = std::next(at);
        if (missing(at->second).empty()) {
            complete.insert(collecting_.extract(at));
        }
        at = next;
    }
    return complete;
}

void Agreement::conclude() {
    for (auto& [sequence, arrivals] : take_complete()) {
        std::vector<Verdict> all(network_.map().ranks.size());
        for (const auto& [rank, verdict] : arrivals) {
            all[static_cast<std::size_t>(rank)] = verdict;
        }
        Verdict verdict = combine(all);
        verdict.epoch = network_.members.epoch();
        {
            const std::lock_guard lock(mutex_);
            past_.emplace(sequence, verdict);
        }
        const auto body = encode(verdict);
        for (const auto& [other, said] : arrivals) {
            if (other != 0 && network_.watch->alive(other)) {
                network_.control->send(other, {.type = PacketType::kAgreed, .sequence = sequence},
                                       body);
            }
        }
        agreed(sequence, std::move(verdict));
    }
}

void Agreement::agreed(std::uint32_t sequence, Verdict verdict) {
    const bool without_mpi = verdict.epoch > 0 || network_.inherited.has_value();
    over_ = over_ || (sequence == last_ && without_mpi);
    {
        const std::lock_guard lock(mutex_);
        results_.emplace(sequence, std::move(verdict));
    }
    changed_.notify_all();
}

}  // namespace cohort
