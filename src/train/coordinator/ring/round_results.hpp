#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sched/session/ring/round_scheduler.hpp"
#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_gradients.hpp"
#include "train/coordinator/ring/ring_leases.hpp"
#include "train/coordinator/ring/ring_requests.hpp"
#include "train/coordinator/ring/ring_riders.hpp"

namespace cohort {

/// What was applied and is lost.
struct Undone {
    std::int64_t updates = 0;
    std::int64_t samples = 0;
};

/// What becomes of a round that is over: an update, which the members have applied already, or
/// nothing.
class RoundResults final : private RoundFeed {
public:
    RoundResults(RingContext& context, RingLeases& leases, RingGradients& gradients,
                 RingRiders& riders, RingRequests& requests);

    /// The oldest round has ended with this report.
    /// @param counts  false: the evaluation or snapshot that was to follow it has been given up
    void report(const RoundReport& report, bool counts);
    /// The oldest round is not completed by any member: its leases come back, the gradients of
    /// riders stay with their parents. Members that have not begun a lease skip its batch.
    void give_up_oldest();
    /// Whether a round has been given up: what a lost member has sent of it counts nowhere.
    [[nodiscard]] bool given_up(std::uint64_t round) const {
        return rounds_over_.given_up.contains(round);
    }
    /// Updates after a version are lost with all that held them: their samples return.
    Undone undo_after(std::int64_t version);
    /// Whether undo_after() knows what has been applied since a version.
    [[nodiscard]] bool can_undo_after(std::int64_t version) const;
    /// A worker that was lost is back.
    void joined(int worker) { booking_.set_idle(worker); }
    /// The newest round that was reported.
    [[nodiscard]] std::uint64_t last() const noexcept { return rounds_over_.last; }

private:
    void push(std::uint64_t lease) override;
    void carry_out(const std::vector<Effect>& effects) override;

    void settle(const Round& round, const RoundReport& report);
    void apply(const Round& round, const RoundReport& report, const BatchResult& result);
    void abort(const Round& round, const RoundReport& report);
    void skip(std::uint64_t last);
    void not_applied(const Round& round);
    void keep(const Fire& fire);
    [[nodiscard]] NonFiniteBatch dropped_of(const Round& round, const RoundReport& report) const;
    [[nodiscard]] BatchResult sum_of(const Round& round, const RoundReport& report) const;
    void note_times(const Round& round, const RoundReport& report);
    [[nodiscard]] std::vector<PushTicket> pushes_of(const Round& round, const RoundReport& report);

    RingContext& context_;
    RingLeases& leases_;
    RingGradients& gradients_;
    RingRiders& riders_;
    RingRequests& requests_;
    RoundBooking booking_;
    std::vector<std::uint64_t> pushes_;  ///< of members, by worker, as the engine knows them
    struct Over {
        std::uint64_t last = 0;            ///< that was reported
        std::set<std::uint64_t> given_up;  ///< a few at every loss
    } rounds_over_;
    /// The leases of an update that riders may not have in their parameters.
    struct Booked {
        std::int64_t version = 0;
        std::vector<std::pair<int, LeaseSlice>> leases;  ///< with their workers
    };
    std::deque<Booked> booked_;        ///< oldest first
    std::int64_t booked_after_ = 0;    ///< all updates after this version are among them
    std::vector<PushTicket> tickets_;  ///< of the round that is booked
    std::optional<Fire> fire_;         ///< of its pushes
};

}  // namespace cohort
