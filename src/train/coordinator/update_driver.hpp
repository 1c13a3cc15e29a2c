#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/data/order.hpp"
#include "cohort/model/replica.hpp"
#include "sched/session/effect_interpreter.hpp"
#include "train/coordinator/push_times.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// What an update carries besides new parameters.
struct UpdateExtras {
    std::uint64_t evaluation = 0;  ///< 0: none
    SnapshotOrder snapshot;
};

/// A mini-batch or round whose numbers are not finite.
struct NonFiniteBatch {
    BatchResult result;
    std::string because;
    std::vector<LeaseSlice> leases;  ///< on which they are not
    bool others_finite = false;      ///< those of other mini-batches of the round are
};

/// A run as those who drive its updates see it. UpdateRecorder is that of a real run.
class UpdateObserver {
public:
    UpdateObserver() = default;
    UpdateObserver(const UpdateObserver&) = delete;
    UpdateObserver& operator=(const UpdateObserver&) = delete;
    virtual ~UpdateObserver() = default;

    [[nodiscard]] virtual TrainingSession& session() = 0;
    /// What the update after which `samples` are applied should carry; reserves it.
    [[nodiscard]] virtual UpdateExtras decide(std::int64_t samples) = 0;
    /// The session's records contain the update.
    virtual void updated(const UpdateOrder& update) = 0;
    /// What decide() asked for is taken from the version that the session has reached.
    /// @param evaluation_parts  that will come back
    virtual void taken(const UpdateExtras& extras, int evaluation_parts) = 0;
    /// A mini-batch or round that is not used, because its numbers are not finite.
    virtual void drop(const NonFiniteBatch& batch) = 0;
    /// Nobody holds what the newest updates made of the parameters: their samples are trained
    /// again. @param why  a sentence
    virtual void undone(std::int64_t updates, std::int64_t samples, const std::string& why) = 0;
    /// Where the time of a mini-batch went; exchange_s: the hidden part of the exchange included, 0
    /// when it is not known.
    virtual void spent(double /*compute_s*/, double /*exposed_s*/, double /*exchange_s*/) {}
    /// An iteration is over. When it arrived and its lag are filled in here.
    virtual void timed(const IterationRecord& record) = 0;
};

/// How updates come about: fires of servers, or rounds of a ring. Runs on the coordinator's
/// thread.
class UpdateDriver {
public:
    UpdateDriver() = default;
    UpdateDriver(const UpdateDriver&) = delete;
    UpdateDriver& operator=(const UpdateDriver&) = delete;
    virtual ~UpdateDriver() = default;

    /// Sends everybody to work, with an evaluation of the parameters to begin with if
    /// `extras` say so.
    /// @return parts of the evaluation
    virtual int begin(const BeginOrder& order, const UpdateExtras& extras) = 0;
    /// False when the message is not for it.
    virtual bool handle(const Message& message) = 0;
    /// Snapshots and evaluation of the current version, apart from any update. Only when quiet().
    /// @return parts of the evaluation
    virtual int request(const UpdateExtras& extras) = 0;
    /// No update is under way that the session does not know of.
    [[nodiscard]] virtual bool quiet() const = 0;
    /// Puts another plan in force at the next fence, in which nothing is lost; of several that wait
    /// the newest counts.
    virtual void install(PlanChange change) = 0;
    /// The worker's rank has been excluded from the job; or it belongs to it again.
    virtual void lost(int worker) = 0;
    virtual void joined(int worker) = 0;
    /// The worker's rank has been excluded after all workers were told to stop.
    virtual void lost_at_the_end(int /*worker*/) {}
    /// World ranks whose contribution the next update waits for.
    [[nodiscard]] virtual std::vector<int> awaited() const = 0;
    /// World ranks that do the evaluation ordered last, part by part.
    [[nodiscard]] virtual std::vector<int> evaluators() const = 0;
    /// What people ask of servers (`cohort ctl servers WORDS`), and the answer.
    /// Errors: UsageError.
    virtual std::string servers(const std::string& /*words*/) { return {}; }
};

[[nodiscard]] std::unique_ptr<UpdateDriver> make_servers_driver(CommContext comm,
                                                                const JobContext& parts,
                                                                UpdateObserver& observer);
[[nodiscard]] std::unique_ptr<UpdateDriver> make_ring_driver(CommContext comm,
                                                             const JobContext& parts,
                                                             UpdateObserver& observer);

}  // namespace cohort
