#include "agreement.hpp"

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

bool Agreement::arrived(std::uint32_t sequence, int rank, Verdict verdict) {
    const std::lock_guard lock(mutex_);
    auto& here = collecting_[sequence];
    here.emplace(rank, std::move(verdict));
    return here.size() == static_cast<std::size_t>(ranks_);
}

Verdict Agreement::conclude(std::uint32_t sequence) {
    const std::lock_guard lock(mutex_);
    std::vector<Verdict> all;
    for (auto& [rank, verdict] : collecting_[sequence]) {
        all.push_back(std::move(verdict));
    }
    collecting_.erase(sequence);
    return combine(all);
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
        if (here != collecting_.end() && !here->second.contains(rank)) {
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

}  // namespace cohort
