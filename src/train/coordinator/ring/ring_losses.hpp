#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_leases.hpp"
#include "train/coordinator/ring/ring_requests.hpp"
#include "train/coordinator/ring/ring_riders.hpp"
#include "train/coordinator/ring/ring_roles.hpp"
#include "train/coordinator/ring/round_results.hpp"

namespace cohort {

/// Losses and returns of workers.
///
/// A rider that is lost gives its leases back. A member takes the ring with it, and so does a
/// worker that has left the ring while an entering one awaits its state:
/// 1. kRecover goes to the members left. Each ends its round, complete or broken, forgets the
///    grants of older epochs and says how far it is.
/// 2. A round that some have completed is committed: the others get everything from one of them.
///    Only then it is booked, so that a round counts which a living member has.
/// 3. Rounds that no member has completed are aborted: their leases return, the gradients of riders
///    stay with their parents.
/// 4. Riders of the lost member get another parent; what they had begun is void.
/// 5. The ring goes on with the members left, until the next plan.
///
/// When no member is left, or those left lack what has been booked, every live worker is asked for
/// what it holds. The one with the newest parameters succeeds the members, alone until the next
/// plan, with the newest state of the optimizer. Updates that its parameters lack are undone: their
/// samples return.
class RingLosses {
public:
    RingLosses(RingContext& context, RingLeases& leases, RingRoles& roles, RingRiders& riders,
               RingRequests& requests, RoundResults& results);

    void lost(int worker);
    void joined(int worker);
    void recovered(const Recovered& answer);
    void role_taken(const RoleTaken& taken);
    /// Tells the engine of losses once no round holds anything of theirs.
    void note_departures();
    [[nodiscard]] bool recovering() const noexcept { return recovery_.has_value(); }
    /// World ranks that a recovery waits for.
    [[nodiscard]] std::vector<int> awaited() const;

private:
    /// A lost worker, as the engine does not know it yet.
    struct Departure {
        bool pending = false;
        bool returned = false;  ///< it has come back meanwhile
    };
    /// What the members left say after the loss of a member, and who is being brought up.
    struct Recovery {
        std::vector<Recovered> answers;
        std::vector<std::uint64_t> bringing;  ///< role orders that have not been carried out
        std::vector<RoundReport> reports;     ///< of the rounds that some have completed
        bool succession = false;              ///< all live workers are asked
        std::optional<Recovered> successor;   ///< what the chosen one holds
        std::int64_t optimizer_version = 0;   ///< that it goes on with
        Undone undone;                        ///< so far: what none of those asked has
        [[nodiscard]] std::uint64_t newest_round() const;
        [[nodiscard]] std::vector<int> completed(std::uint64_t round) const;
    };
    /// Whose answers the recovery compares.
    [[nodiscard]] std::vector<int> asked() const;
    [[nodiscard]] bool all_answered() const { return recovery_->answers.size() == asked().size(); }
    void start_recovery();
    void start_succession();
    void ask();
    void proceed();
    void bring_up();
    void succeed();
    [[nodiscard]] bool can_succeed(const Recovered& answer) const;
    void settle(const std::vector<RoundReport>& reports, std::uint64_t last);
    void end_recovery();
    void end_succession(const Recovery& done);
    void go_on();

    RingContext& context_;
    RingLeases& leases_;
    RingRoles& roles_;
    RingRiders& riders_;
    RingRequests& requests_;
    RoundResults& results_;
    std::vector<Departure> departures_;  ///< by worker
    std::optional<Recovery> recovery_;
};

}  // namespace cohort
