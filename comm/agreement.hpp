#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "cohort/core/error.hpp"

namespace cohort {

/// What a rank brings to an agreement, or takes home from it.
struct Verdict {
    ExitCode code = ExitCode::kDone;
    std::string message;
    template <class Io>
    void fields(Io& io) {
        io(code, message);
    }
};

/// The worst of `verdicts` (by rank), with each different message once and the ranks that said it.
[[nodiscard]] Verdict combine(const std::vector<Verdict>& verdicts);

/// "Did all of us get here?" Every rank tells rank 0, which tells all. Thread safe; the messages
/// are carried by the communication thread.
class Agreement {
public:
    explicit Agreement(int ranks) : ranks_(ranks) {}

    /// On rank 0: `rank` has arrived with its verdict. True when all have.
    [[nodiscard]] bool arrived(std::uint32_t sequence, int rank, Verdict verdict);
    /// On rank 0, when all have arrived: what they agreed on.
    [[nodiscard]] Verdict conclude(std::uint32_t sequence);
    /// The result has come in.
    void agreed(std::uint32_t sequence, Verdict verdict);

    /// Number of the next agreement of this rank.
    [[nodiscard]] std::uint32_t next();
    /// Sleeps until it is agreed on, as the wait `name` of the board.
    [[nodiscard]] Verdict wait(std::uint32_t sequence, std::string_view name, OperationBoard& board,
                               int own_rank);

private:
    [[nodiscard]] std::vector<int> missing(std::uint32_t sequence, int own_rank) const;

    int ranks_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint32_t sequence_ = 0;
    std::map<std::uint32_t, std::map<int, Verdict>> collecting_;
    std::map<std::uint32_t, Verdict> results_;
};

}  // namespace cohort
