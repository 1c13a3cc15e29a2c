#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "cohort/core/error.hpp"
#include "comm/world/members.hpp"

namespace cohort {

/// What a rank brings to an agreement, or takes home from it.
struct Verdict {
    ExitCode code = ExitCode::kDone;
    std::string message;
    std::uint64_t epoch = 0;  ///< of the membership when it was agreed
    template <class Io>
    void fields(Io& io) {
        io(code, message, epoch);
    }
};

/// The worst of `verdicts` (by rank), with each different message once and the ranks that said it.
[[nodiscard]] Verdict combine(const std::vector<Verdict>& verdicts);

/// "Did all of us get here?" Every rank tells rank 0, which tells all. Nobody waits for an excluded
/// rank; one that comes all the same is told. Thread safe; the messages are carried by the
/// communication thread.
class Agreement {
public:
    Agreement(int ranks, const Members& members) : ranks_(ranks), members_(members) {}

    /// On rank 0: `rank` has arrived with its verdict. What was agreed on, if it comes too late.
    [[nodiscard]] std::optional<Verdict> arrived(std::uint32_t sequence, int rank, Verdict verdict);
    /// On rank 0: agreements at which all members have arrived.
    [[nodiscard]] std::vector<std::uint32_t> complete() const;
    struct Conclusion {
        Verdict verdict;
        std::vector<int> arrived;
    };
    /// On rank 0, when all have arrived: what they agreed on.
    [[nodiscard]] Conclusion conclude(std::uint32_t sequence);
    /// The result has come in.
    void agreed(std::uint32_t sequence, Verdict verdict);

    /// Number of the next agreement of this rank.
    [[nodiscard]] std::uint32_t next();
    /// Sleeps until it is agreed on, as the wait `name` of the board.
    [[nodiscard]] Verdict wait(std::uint32_t sequence, std::string_view name, OperationBoard& board,
                               int own_rank);
    /// The same for at most `limit`. False when it was not agreed on by then.
    [[nodiscard]] bool wait_for(std::uint32_t sequence, std::chrono::milliseconds limit);

private:
    [[nodiscard]] bool all_here(const std::map<int, Verdict>& here) const;
    [[nodiscard]] std::vector<int> missing(std::uint32_t sequence, int own_rank) const;

    int ranks_;
    const Members& members_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint32_t sequence_ = 0;
    std::map<std::uint32_t, std::map<int, Verdict>> collecting_;
    std::map<std::uint32_t, Verdict> results_;
    std::map<std::uint32_t, Verdict> past_;  ///< on rank 0
};

}  // namespace cohort
