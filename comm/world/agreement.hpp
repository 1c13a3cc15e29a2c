#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "cohort/core/error.hpp"
#include "comm/world/command_queue.hpp"
#include "comm/world/network.hpp"

namespace cohort {

/// What a rank brings to an agreement, and what all of them agree on.
struct Verdict {
    ExitCode code = ExitCode::kDone;
    std::string message;
    std::uint64_t epoch = 0;  ///< of the membership when it was agreed
    auto fields() { return std::tie(code, message, epoch); }
};

/// The worst of `verdicts` (by rank), with each different message once and the ranks that said it.
[[nodiscard]] Verdict combine(const std::vector<Verdict>& verdicts);

/// "Did all of us get here?" Every rank tells rank 0, which tells all. Nobody waits for an excluded
/// rank; one that arrives all the same is told what was agreed.
class Agreement {
public:
    Agreement(Network& network, CommandQueue& commands, OperationBoard& board)
        : network_(network), commands_(commands), board_(board) {}

    // From any thread but the communication thread:
    /// Sleeps until all members have arrived, as the wait `name` of the board.
    /// Errors: WorldLost.
    [[nodiscard]] Verdict agree(Verdict own, std::string_view name);
    /// The same, for the agreement that the job is over.
    [[nodiscard]] Verdict agree_on_end();
    /// False when the members have not agreed within `limit`.
    [[nodiscard]] bool agree_within(std::chrono::milliseconds limit);

    // On the communication thread:
    /// On rank 0: `rank` has arrived with its verdict.
    void arrived(std::uint32_t sequence, int rank, Verdict verdict);
    /// No agreement is reached any more: those who wait get WorldLost. @param reason  a sentence
    void give_up(const std::string& reason);
    /// On rank 0: concludes the agreements at which all members have arrived.
    void conclude();
    /// The result is received.
    void agreed(std::uint32_t sequence, Verdict verdict);
    /// All members know that the job is over, after a loss.
    [[nodiscard]] bool job_over() const noexcept { return over_; }

private:
    using Arrivals = std::map<int, Verdict>;  ///< by rank
    [[nodiscard]] std::uint32_t arrive(Verdict own, bool last);
    [[nodiscard]] Verdict wait(std::uint32_t sequence, std::string_view name);
    [[nodiscard]] std::map<std::uint32_t, Arrivals> take_complete();
    /// Of those for whom an agreement waits.
    [[nodiscard]] std::vector<int> missing(const Arrivals& arrivals) const;

    Network& network_;
    CommandQueue& commands_;
    OperationBoard& board_;
    std::uint32_t last_ = 0;  ///< sequence of agree_on_end(); communication thread only
    bool over_ = false;       ///< communication thread only
    std::mutex mutex_;        ///< of what follows
    std::condition_variable changed_;
    std::uint32_t sequence_ = 0;
    std::map<std::uint32_t, Arrivals> collecting_;
    std::map<std::uint32_t, Verdict> results_;
    std::map<std::uint32_t, Verdict> past_;  ///< on rank 0
    std::optional<std::string> given_up_;    ///< why
};

}  // namespace cohort
