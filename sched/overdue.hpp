#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/running.hpp"
#include "plan_space.hpp"

namespace cohort {

/// A worker whose iteration lasts longer than it should.
struct OverdueWorker {
    int worker = 0;
    double usual_s = 0;   ///< that such an iteration of it takes
    double lasted_s = 0;  ///< so far
    double least_s = 0;   ///< the last moment at which it was to be looked at, not after lasted_s

    /// That the iteration is expected to take in the end: what stragglers usually need, or as long
    /// again. @param slowdown  of stragglers so far, times the usual; 0: there were none
    [[nodiscard]] double total_s(double slowdown) const noexcept;
};

/// Who is overdue, and when to look next.
///
/// An iteration should be over within 1.5 times the worker's usual time, or later by as much as
/// times vary; where those who were late came soon after, it is given more time. When more than
/// half of the workers are late there is nobody to be set apart: it is the servers or the network.
/// Who is late is looked at again each time that it has lasted by a third longer. Pure.
class OverdueWatch {
public:
    /// How well a worker's times are known.
    struct Sureness {
        bool known = false;  ///< from enough records
        double noise = 0;    ///< mean relative distance of its times from what is usual
    };

    /// What iterations take, until the next call. @param live  workers  @param sure  by worker
    void expect(LoadEstimate usual, std::vector<int> live, std::vector<Sureness> sure);
    /// Those who were taken for late came so much later, or at once. Each of the second kind
    /// makes the time allowed longer by a quarter, until there is one of the first.
    void learn(bool late);
    [[nodiscard]] std::vector<OverdueWorker> look(const RunningIterations& running, double now_s);
    /// The first moment at which somebody is late who was not so at the last look, or is later by a
    /// third; none: nobody can be.
    [[nodiscard]] std::optional<double> wake_at(const RunningIterations& running) const;

private:
    /// How late an iteration was when it was looked at: 0 not, 1 overdue, one more for each third.
    struct Seen {
        double begun_s = -1;  ///< which iteration
        int step = 0;
    };
    struct Limit {
        double usual_s = 0;
        double allowed_s = 0;
    };
    [[nodiscard]] bool judges(const RunningIterations& running, int worker) const;
    [[nodiscard]] Limit limit(const RunningIterations& running, int worker) const;

    LoadEstimate usual_;
    double leniency_ = 1;
    std::vector<int> live_;
    std::vector<Sureness> sure_;
    std::vector<Seen> seen_;
};

/// "worker 3 is overdue: 2.1 times its usual time"; of several, one after the other.
[[nodiscard]] std::string describe(const std::vector<OverdueWorker>& overdue);

}  // namespace cohort
