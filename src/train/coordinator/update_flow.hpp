#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/sched/load_desk.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/telemetry.hpp"
#include "cohort/sched/update_engine.hpp"
#include "train/coordinator/lease_desk.hpp"
#include "train/protocol/links.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// What an update carries besides new parameters.
struct UpdateExtras {
    std::uint64_t evaluation = 0;  ///< 0: none
    SnapshotOrder snapshot;
};

/// An update that has been decided: what the run's books need to know.
struct UpdateRecord {
    std::int64_t version = 0;  ///< after it
    double fraction = 0;
    double learning_rate = 0;
    std::uint32_t epoch = 0;   ///< of its oldest lease
    BatchResult result;        ///< over all of its pushes
    double gradient_norm = 0;  ///< mean over them
    std::vector<std::uint64_t> leases;
};

/// The books of a run, as the flow of updates writes them. Implemented by the coordinator.
class RunBooks {
public:
    RunBooks() = default;
    RunBooks(const RunBooks&) = delete;
    RunBooks& operator=(const RunBooks&) = delete;
    virtual ~RunBooks() = default;

    [[nodiscard]] virtual LeaseDesk& leases() = 0;
    [[nodiscard]] virtual UpdateEngine& engine() = 0;
    [[nodiscard]] virtual std::int64_t samples_applied() const = 0;
    /// No new work is given out any more.
    [[nodiscard]] virtual bool stopping() const = 0;
    /// What the update after which `samples` are applied should carry; reserves it.
    [[nodiscard]] virtual UpdateExtras decide(std::int64_t samples) = 0;
    virtual void commit(const UpdateRecord& update) = 0;
    /// What decide() asked for is taken from the version that the books have reached.
    /// @param evaluation_parts  that will come back
    virtual void taken(const UpdateExtras& extras, int evaluation_parts) = 0;
    /// A mini-batch or round that is not used, because its numbers are not finite.
    virtual void drop(const BatchResult& result, const std::string& because) = 0;
    /// Where the time of a mini-batch went; exchange_s: the hidden part of the exchange included, 0
    /// when it is not known.
    virtual void spent(double compute_s, double exposed_s, double exchange_s) = 0;
    /// A worker may compute and has something to compute: it begins an iteration, in place of the
    /// one it was at. @param samples  of its mini-batch
    virtual void begun(int worker, std::int64_t samples) = 0;
    /// It has given that up, and has nothing to compute.
    virtual void stopped(int worker) = 0;
    /// An iteration has come to its end. When it arrived and its lag are filled in here.
    virtual void timed(const IterationRecord& record) = 0;
    virtual void settled(const PushOutcome& outcome) = 0;
    /// A plan that install() was given is in force: all that comes now is under it.
    virtual void installed(const SyncPlan& plan) = 0;
    /// Whether the mode in charge looks at what gradients tell.
    [[nodiscard]] virtual bool wants_gradients() const = 0;
    /// What they told; numbers that are not known yet are 0.
    virtual void measured(const GradientFacts& facts) = 0;
};

/// How updates come about: fires of servers, or rounds of a ring. Runs on the coordinator's
/// thread.
class UpdateFlow {
public:
    UpdateFlow() = default;
    UpdateFlow(const UpdateFlow&) = delete;
    UpdateFlow& operator=(const UpdateFlow&) = delete;
    virtual ~UpdateFlow() = default;

    /// Sends everybody to work, with an evaluation of the parameters to begin with if
    /// `extras` say so.
    /// @return parts of the evaluation
    virtual int begin(const BeginOrder& order, const UpdateExtras& extras) = 0;
    /// False when the message is not the flow's.
    virtual bool handle(const Message& message) = 0;
    /// Snapshots and evaluation of the current version, apart from any update. Only when quiet().
    /// @return parts of the evaluation
    virtual int request(const UpdateExtras& extras) = 0;
    /// No update is under way that the books do not know of.
    [[nodiscard]] virtual bool quiet() const = 0;
    /// Puts another plan in force at the next fence, in which nothing is lost; of several that wait
    /// the newest counts. @param batches samples of a worker's leases from then on; empty: as
    /// before
    virtual void install(SyncPlan plan, std::vector<std::int64_t> batches) = 0;
    /// The worker's rank has been excluded from the job; or it belongs to it again.
    virtual void lost(int worker) = 0;
    virtual void joined(int worker) = 0;
    /// The worker's rank has been excluded after all workers were told to stop.
    virtual void lost_at_the_end(int /*worker*/) {}
    /// World ranks whose contribution the next update waits for.
    [[nodiscard]] virtual std::vector<int> awaited() const = 0;
    /// World ranks that do the evaluation ordered last, part by part.
    [[nodiscard]] virtual std::vector<int> evaluators() const = 0;
};

[[nodiscard]] std::unique_ptr<UpdateFlow> make_servers_flow(Links links, const JobParts& parts,
                                                            RunBooks& books);
[[nodiscard]] std::unique_ptr<UpdateFlow> make_ring_flow(Links links, const JobParts& parts,
                                                         RunBooks& books);

/// Why numbers cannot be used; empty when they are finite.
[[nodiscard]] std::string non_finite_reason(double loss_sum, bool finite);

/// A gradient's size on the wire.
[[nodiscard]] double push_bytes(const JobParts& parts);
/// A push after its ticket: what is left of it then leaves.
struct PushSending {
    double seconds = 0;   ///< from the ticket until all was there
    double before_s = 0;  ///< the same of the worker's push before
    double bytes = 0;     ///< of the whole push that went over the network
};
/// What a ticket says of its worker's time. What the push before still took after its ticket was
/// that iteration's: it is no waiting of this one.
/// @param received  bytes that came over the network before it
[[nodiscard]] IterationRecord record_of(const Ticket& ticket, const PushSending& sending,
                                        double received);

/// Sends a protocol message from the coordinator.
template <class Kind, class Body>
void send_order(const Links& links, Address to, Kind kind, const Body& body) {
    links.messenger.send(to, Port::kCoordinator, static_cast<std::uint16_t>(kind), encode(body));
}

}  // namespace cohort
