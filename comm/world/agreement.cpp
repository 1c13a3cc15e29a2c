#include "comm/world/agreement.hpp"

#include <fmt/format.h>

#include <utility>

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
            continue;  // everybody says so
        }
        result.message +=
            fmt::format(" ({} {})", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
    }
    return result;
}

std::optional<Verdict> Agreement::arrived(std::uint32_t sequence, int rank, Verdict verdict) {
    const std::lock_guard lock(mutex_);
    if (const auto past = past_.find(sequence); past != past_.end()) {
        return past->second;
    }
    collecting_[sequence].insert_or_assign(rank, std::move(verdict));
    return std::nullopt;
}

bool Agreement::all_here(const std::map<int, Verdict>& here) const {
    for (int rank = 0; rank < ranks_; ++rank) {
        if (!here.contains(rank) && !members_.excluded(rank)) {
            return false;
        }
    }
    return true;
}

std::vector<std::uint32_t> Agreement::complete() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> sequences;
    for (const auto& [sequence, here] : collecting_) {
        if (all_here(here)) {
            sequences.push_back(sequence);
        }
    }
    return sequences;
}

Agreement::Conclusion Agreement::conclude(std::uint32_t sequence) {
    const std::lock_guard lock(mutex_);
    std::vector<Verdict> all(static_cast<std::size_t>(ranks_));
    Conclusion conclusion;
    for (auto& [rank, verdict] : collecting_[sequence]) {
        all[static_cast<std::size_t>(rank)] = std::move(verdict);
        conclusion.arrived.push_back(rank);
    }
    collecting_.erase(sequence);
    conclusion.verdict = combine(all);
    conclusion.verdict.epoch = members_.epoch();
    past_.emplace(sequence, conclusion.verdict);
    return conclusion;
}

void Agreement::agreed(std::uint32_t sequence, Verdict verdict) {
    {
        const std::lock_guard lock(mutex_);
        results_.emplace(sequence, std::move(verdict));
    }
    changed_.notify_all();
}

std::uint32_t Agreement::next() {
    const std::lock_guard lock(mutex_);
    return ++sequence_;
}

std::vector<int> Agreement::missing(std::uint32_t sequence, int own_rank) const {
    if (own_rank != 0) {
        return {0};  // who else is late is known there
    }
    const std::lock_guard lock(mutex_);
    const auto here = collecting_.find(sequence);
    std::vector<int> late;
    for (int rank = 0; rank < ranks_; ++rank) {
        if (here != collecting_.end() && !here->second.contains(rank) && !members_.excluded(rank)) {
            late.push_back(rank);
        }
    }
    return late;
}

Verdict Agreement::wait(std::uint32_t sequence, std::string_view name, OperationBoard& board,
                        int own_rank) {
    const auto named =
        board.begin(name, sequence, [=, this] { return missing(sequence, own_rank); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.contains(sequence); });
    Verdict verdict = std::move(results_.at(sequence));
    results_.erase(sequence);
    lock.unlock();
    return verdict;
}

bool Agreement::wait_for(std::uint32_t sequence, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return results_.contains(sequence); });
}

}  // namespace cohort
