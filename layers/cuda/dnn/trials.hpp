#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/tensor/device.hpp"
#include "cohort/tensor/element.hpp"

// How ways of doing the same are measured against each other. A GPU that was idle takes some time
// to raise its clock, and kernels change it by the power that they take: so candidates run in turn,
// after some work that does not count, on numbers as training has them (zeros take less power).
namespace cohort::cuda {

/// Of what cannot be used.
inline constexpr double kInfiniteSeconds = std::numeric_limits<double>::infinity();

/// Seconds that candidate `i` takes for one run; infinite: it cannot be used. The first call for a
/// candidate may take longer.
using CandidateSeconds = std::function<double(std::size_t i)>;

/// Runs every candidate once, then all in turn for `warm_up` seconds, then for five rounds that
/// count, each in the opposite order of the one before.
/// @return medians; infinite for those that cannot be used
[[nodiscard]] std::vector<double> seconds_in_turn(std::size_t candidates, double warm_up,
                                                  const CandidateSeconds& seconds_of);

/// The first of the least; -1: all are infinite.
[[nodiscard]] int index_of_least(const std::vector<double>& seconds) noexcept;

/// Seconds of work before the first measurement of this process on a GPU, 0 from then on. Thread
/// safe. @param gpu  see GpuFacts::index
[[nodiscard]] double warm_up_of(int gpu);

/// Which configurations of engines are tried for one operation.
class TrialBudget {
public:
    static constexpr int kMost = 16;          ///< of all
    static constexpr int kMostPerEngine = 4;  ///< the heuristics name one up to 20 times
    static constexpr int kMostCompiled = 2;   ///< see PlanVariant::compiled; others get the rest

    /// There is room for another. @param engine  unlike those of other variants
    [[nodiscard]] bool allows(bool compiled, std::pair<int, std::int64_t> engine) const;
    void take(bool compiled, std::pair<int, std::int64_t> engine);

private:
    int compiled_ = 0;
    int precompiled_ = 0;
    std::map<std::pair<int, std::int64_t>, int> engines_;
};

/// Work that is timed again and again by the device's clock. It is recorded where the device can,
/// several runs in a row where they are short: so what the thread takes to queue it does not count.
class TimedWork {
public:
    /// @param stream  outlives this @param queue  queues the work, the same each time
    TimedWork(Stream& stream, std::function<void()> queue)
        : stream_(stream), queue_(std::move(queue)) {}

    /// Runs it and waits. Seconds of one run. Errors: DeviceError when it fails or cannot be
    /// recorded.
    [[nodiscard]] double seconds();
    [[nodiscard]] bool has_run() const noexcept { return runs_ > 0; }

private:
    [[nodiscard]] double time(const std::function<void()>& work);
    void record();

    Stream& stream_;
    std::function<void()> queue_;
    int runs_ = 0;  ///< in a row; 0: it has never run
    std::unique_ptr<Recording> recording_;
};

/// work.seconds(), infinite where that fails.
[[nodiscard]] double seconds_or_infinite(TimedWork& work);

/// Queues copies that fill memory with numbers uniform in [-1, 1), always the same ones.
void fill_random(Stream& stream, ElementType type, void* to, std::size_t bytes);

}  // namespace cohort::cuda
