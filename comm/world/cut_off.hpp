#pragma once

#include <optional>
#include <string>

#include "cohort/comm/operations.hpp"
#include "comm/world/failure.hpp"
#include "comm/world/network.hpp"

namespace cohort {

/// The doubt of a rank that hears nothing of rank 0, which lies on another host: it cannot tell
/// rank 0's death from a link that is down. On the communication thread.
///  1. The rank waits for rank 0, for twice the stall limit; its other waits do not count.
///  2. Rank 0, when it lives, excludes the rank after lost_after_s and goes on with the others.
///  3. When the link is back, the rank's first message makes rank 0 ask whether it still runs, and
///     the answer, not the old message, lets it join again (or not, when the job is about to end).
///  4. Otherwise the rank leaves alone, without a record, and without MPI_Abort, which would end
///     the job of the others.
class CutOff {
public:
    CutOff(const Network& network, OperationBoard& board, double limit_s)
        : network_(network), board_(board), limit_s_(limit_s) {}

    [[nodiscard]] bool doubts() const noexcept { return since_.has_value(); }
    void begin(Instant now, const std::string& reason);
    /// This process was not running for `pause`.
    void forgive(Instant::duration pause) noexcept;
    /// Ends the doubt when rank 0 is heard again. @return why this process must end, when the doubt
    /// has lasted too long
    [[nodiscard]] std::optional<Failure> look(Instant now);

private:
    const Network& network_;
    OperationBoard& board_;
    double limit_s_;
    std::optional<Instant> since_;
};

}  // namespace cohort
