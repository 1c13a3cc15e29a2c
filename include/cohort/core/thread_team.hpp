#pragma once

#include <functional>
#include <memory>

namespace cohort {

/// Most threads of one team: a larger number is a typing error.
inline constexpr int kMaxThreads = 1024;

/// A fixed team of threads that runs one function on every member and waits for all of them.
/// The caller is member 0. Members that wait spin for some microseconds and then sleep: they never
/// burn a core while another rank of the same machine computes.
class ThreadTeam {
public:
    /// @param size number of members including the caller, 1..kMaxThreads
    /// @param on_start runs once on every member before its first work (e.g. to set per-thread
    ///        library state); on the caller inside the constructor, and again when another thread
    ///        becomes the caller
    /// Errors: UsageError for `size`, DeviceError when the system refuses a thread.
    explicit ThreadTeam(int size, std::function<void()> on_start = {});
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;
    ~ThreadTeam();

    [[nodiscard]] int size() const noexcept;

    /// Makes this thread the caller: runs `on_start` on it unless it is the caller already. For
    /// work beside run() that relies on what `on_start` sets.
    /// Errors: std::logic_error while another thread runs the team.
    void adopt_caller();

    /// Adopts the caller, runs `work(member)` once for every member and returns when all are done.
    /// A member that has not woken by the time the caller is free is done by the caller, so work
    /// must not wait for other members; nothing may depend on which thread does it. An
    /// exception of the lowest-numbered member that threw is rethrown here. Not reentrant.
    /// Errors: std::logic_error when a run is in progress, whichever thread started it.
    void run(const std::function<void(int member)>& work);

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// The half-open part [begin, end) of `count` items that member `member` of `size` handles;
/// contiguous, sizes differ by at most one, fixed for given arguments.
struct Part {
    long long begin;
    long long end;
};
[[nodiscard]] Part part_of(long long count, int member, int size) noexcept;

}  // namespace cohort
