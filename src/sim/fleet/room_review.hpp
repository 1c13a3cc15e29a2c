#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "sched/fleet/making_room.hpp"
#include "sim/fleet/grant_record.hpp"
#include "sim/fleet/job_needs.hpp"

namespace cohort {

/// Whose transfers go first where a fleet's jobs meet: asks the rules of docs/making-room.md about
/// the jobs that run, and keeps the record of what was granted. Knows no clock and no cluster: its
/// owner says what jobs need and have done, and carries the weights out. Pure.
class RoomReview {
public:
    /// Seconds between two reviews at most, as long as jobs run.
    static constexpr double kReviewSeconds = 60;

    /// @param nodes  what each has for all jobs together
    RoomReview(RoomRule rule, std::vector<NodeCapacity> nodes);
    /// As GrantRecord has it.
    void resume(FleetGrants before) { record_.resume(std::move(before)); }
    /// With off nothing is ever granted or refused.
    [[nodiscard]] bool on() const noexcept { return rule_ != RoomRule::kOff; }

    /// What a job is, apart from its needs.
    struct Size {
        std::int64_t budget_samples = 0;
        std::int64_t reference_batch = 1;
        std::int64_t samples = 0;  ///< applied before
    };
    void start(std::size_t job, double now_s, const Size& size, JobNeeds needs);
    [[nodiscard]] bool runs(std::size_t job) const { return running_.contains(job); }
    /// How far a job is; to be told before a review and before admits().
    void applied(std::size_t job, std::int64_t samples);
    /// To be called when the job has changed its plan or its shards: its pace is measured anew.
    void needs(std::size_t job, double now_s, JobNeeds needs);
    [[nodiscard]] const JobNeeds& needs(std::size_t job) const { return running_.at(job).needs; }
    /// The job's grants are over; the next review is due.
    void release(std::size_t job, double now_s);
    /// The job is over, with its grants.
    void end(std::size_t job, double now_s);

    /// Another plan that a job wishes to have.
    struct Wish {
        std::string from;
        std::string to;
        JobNeeds needs;    ///< of the plan that it wishes
        double worth = 1;  ///< of a sample, relative to the present plan
        /// The plan fits where no other job loses, whatever it brings the job itself: the chooser
        /// has judged that.
        bool for_others_only = false;
    };
    /// Whether the plan fits beside the other jobs. One that does not is refused until the next
    /// review.
    [[nodiscard]] bool admits(std::size_t job, double now_s, const Wish& wish);

    /// A job has started, ended or changed its plan, or kReviewSeconds have passed.
    [[nodiscard]] bool due(double now_s) const;
    void review(double now_s);
    /// Of a job's transfers.
    [[nodiscard]] double weight(std::size_t job) const {
        return ledger_.weight(static_cast<int>(job));
    }

    /// Jobs with servers, and what the others, with weight 1, take of the nodes.
    [[nodiscard]] std::vector<PlacedJob> placed() const;
    [[nodiscard]] std::vector<NodeRoom> nodes() const;

    /// Writes all grants so far, if room is made (GrantRecord).
    void report(FleetResult& result, double now_s) {
        if (on()) {
            record_.report(result, ledger_, now_s);
        }
    }

private:
    struct Running {
        Size size;  ///< `samples`: at `since_s`
        JobNeeds needs;
        std::int64_t samples = 0;
        // The pace is measured from here on: the same plan, neighbours and weights.
        double since_s = 0;
        double ahead_s = 0;             ///< RoomJob::ahead_s, until then
        std::set<std::string> refused;  ///< plans, since the last review

        [[nodiscard]] RoomJob look(std::size_t job, double now_s) const;
        [[nodiscard]] double measured(double now_s) const;
        [[nodiscard]] double ahead_now_s(double now_s) const;
        void measure_anew(double now_s);
    };
    [[nodiscard]] std::vector<RoomJob> jobs(double now_s) const;

    RoomRule rule_;
    std::vector<NodeCapacity> nodes_;
    RoomLedger ledger_;
    std::map<std::size_t, Running> running_;
    GrantRecord record_;
    double next_s_ = 0;
    bool changed_ = false;  ///< jobs or plans, since the last review
};

}  // namespace cohort
