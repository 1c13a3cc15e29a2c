#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cohort/comm/world.hpp"
#include "comm/world/agreement.hpp"
#include "comm/world/job_end.hpp"
#include "comm/world/progress_loop.hpp"
#include "comm/world/succession/succession.hpp"

namespace cohort {

/// Whether a rank has something to go on with in another World. Thread safe.
class Permission {
public:
    void set(std::function<bool()> ready) {
        const std::lock_guard lock(mutex_);
        ready_ = std::move(ready);
    }
    [[nodiscard]] bool given() const {
        const std::lock_guard lock(mutex_);
        return ready_ && ready_();
    }

private:
    mutable std::mutex mutex_;
    std::function<bool()> ready_;
};

/// The end of a World that has lost rank 0 or a server, on a rank that is left. Where
/// World::survive allows it:
///  1. Everything that this rank's roles wait for breaks (WorldLost), and what they send is lost.
///  2. The communication thread goes on, and agrees with those of the other ranks on who is left.
///  3. World::retire takes the result, and ends the communication thread.
class SuccessionControl {
public:
    SuccessionControl(Network& network, ProgressLoop& progress, Ports& ports, Agreement& agreement,
                      JobEnd& job_end, double patience_s)
        : network_(network),
          progress_(progress),
          ports_(ports),
          agreement_(agreement),
          job_end_(job_end),
          patience_(patience_s) {}

    /// See World::survive. Thread safe.
    void allow(std::function<bool()> ready) { permission_.set(std::move(ready)); }
    [[nodiscard]] bool allowed() const { return permission_.given(); }
    /// The World has ended on this rank. Thread safe.
    [[nodiscard]] bool active() const noexcept { return active_; }
    /// Sleeps until it is decided who is left. Once, on any other thread.
    [[nodiscard]] World::Survivors wait() { return survivors_.get_future().get(); }

    // On the communication thread:
    /// The job cannot go on without the rank that is lost.
    void begin(const PeerWatch::Loss& loss);
    /// Another rank has told what it knows.
    void heard(int from, const SuccessionNote& note);
    /// To be called often while it is active.
    void look(Instant now);

private:
    void end_world(const std::string& reason);
    void exclude(bool own_rank_too);
    [[nodiscard]] bool lives(int rank, Instant now) const;
    void advance();

    Network& network_;
    ProgressLoop& progress_;
    Ports& ports_;
    Agreement& agreement_;
    JobEnd& job_end_;
    Succession::Seconds patience_;
    Permission permission_;
    std::atomic<bool> active_{false};
    // Once it is active, communication thread only:
    std::optional<Succession> succession_;
    Instant begun_;
    bool told_ = false;  ///< the decision
    std::promise<World::Survivors> survivors_;
};

}  // namespace cohort
