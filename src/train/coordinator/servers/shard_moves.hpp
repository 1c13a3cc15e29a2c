#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sched/servers/shard_balancer.hpp"
#include "sched/session/training_session.hpp"
#include "train/coordinator/servers/payload_router.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Which server owns which part of the parameters: decides when shards move, by measurements or as
/// people ask (`cohort ctl servers`), and conducts a move (step 6 of protocol.hpp).
class ShardMoves {
public:
    /// All of them outlive it.
    ShardMoves(CommContext comm, const JobContext& parts, TrainingSession& session,
               PayloadRouter& payloads);

    /// The layout at the start of a run.
    [[nodiscard]] static ShardLayout first_layout(const JobContext& parts, const RankMap& map);

    /// A server has reported how long it was busy so far.
    void busy(int server, double busy_s);
    /// An update was made. @return shards are to move at the next fence
    [[nodiscard]] bool updated();
    /// Another plan is in force.
    void restart() { balancer_.restart(); }
    /// What people ask for: where shards are (""), "capacity", or shares as "1:3".
    /// @return shards are to move; answer() says what follows. Errors: UsageError.
    [[nodiscard]] bool request(const std::string& words);
    [[nodiscard]] const std::string& answer() const noexcept { return answer_; }

    /// Number of the newest layout that servers were told of: they discard what is cut by others.
    [[nodiscard]] std::uint32_t newest_layout() const noexcept { return next_.number; }
    /// The fence is reached: servers move what changes its owner.
    void begin();
    /// @return all servers have what they own: workers are told, and may work again
    [[nodiscard]] bool arrived(const ReshardedNote& note);

private:
    [[nodiscard]] std::string places() const;
    [[nodiscard]] double parameter_bytes() const;

    CommContext comm_;
    const JobContext& parts_;
    TrainingSession& session_;
    PayloadRouter& payloads_;
    ShardBalancer balancer_;
    std::vector<double> busy_s_;  ///< by server
    bool automatic_;              ///< the balancer decides
    std::optional<ShardBalancer::Resize> wanted_;
    ShardLayout next_;         ///< of the move under way, or the last one
    std::set<int> resharded_;  ///< servers that have
    double begun_s_ = 0;
    std::string answer_;
};

}  // namespace cohort
