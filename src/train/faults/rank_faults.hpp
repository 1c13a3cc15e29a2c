#pragma once

#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "train/faults/injection.hpp"

namespace cohort {

/// A fault of a whole rank at a time.
struct RankFault {
    enum class Kind { kPace, kFreeze, kKill };
    double at_s = 0;
    Kind kind = Kind::kPace;
    double value = 0;  ///< kPace: bytes per second, 0: no limit; kFreeze: seconds

    friend bool operator==(const RankFault&, const RankFault&) = default;
};

/// Faults that `--inject` puts into a rank besides slow computing, in the order of time; of several
/// active limits the smallest counts.
[[nodiscard]] std::vector<RankFault> rank_faults(const std::vector<Injection>& all, int rank);

/// Carries out rank_faults() on a separate thread (none when there are no faults). A freeze stops
/// the whole process; a child that does nothing but sleep wakes it.
class FaultThread {
public:
    /// @param begun    whether training has begun: times count from then
    /// @param set_pace limits the rank's traffic; both are called on the thread
    FaultThread(std::vector<RankFault> faults, std::function<bool()> begun,
                std::function<void(double bytes_per_second)> set_pace);
    FaultThread(const FaultThread&) = delete;
    FaultThread& operator=(const FaultThread&) = delete;
    ~FaultThread() = default;

private:
    void run(const std::stop_token& stop) const;

    std::vector<RankFault> faults_;
    std::function<bool()> begun_;
    std::function<void(double)> set_pace_;
    std::jthread thread_;  ///< stops when this is destroyed
};

}  // namespace cohort
