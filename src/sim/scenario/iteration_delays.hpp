#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/dataset/recording.hpp"

namespace cohort {

/// What single iterations take longer than a healthy one, whatever their batch. What workers have
/// in common belongs to a *moment*: the reference batches that the job has done. So it is the same
/// for all who begin at the same time, whatever came before. Pure.
class IterationDelays {
public:
    IterationDelays() = default;
    IterationDelays(const IterationDelays&) = delete;
    IterationDelays& operator=(const IterationDelays&) = delete;
    virtual ~IterationDelays() = default;
    /// Of the worker's next iteration, which begins at `moment`, seconds >= 0.
    [[nodiscard]] virtual double next_s(int worker, std::int64_t moment) = 0;
};

/// The law of `--pattern jitter`.
struct Jitter {
    enum class Law : std::uint8_t { kLognormal, kExponential, kPareto };
    double strength = 1.5;  ///< E[slowest of all workers] / E[one worker] of iteration times, >= 1
    Law law = Law::kLognormal;
    double between = 0;  ///< correlation between workers at the same moment, [0, 1)
    double over = 0;     ///< correlation between successive iterations of a worker, [0, 1)
};

/// "STRENGTH[:LAW[:BETWEEN[:OVER]]]", LAW lognormal, exponential or pareto; `pattern` is the whole
/// word for messages. Errors: UsageError naming the part.
[[nodiscard]] Jitter parse_jitter(std::string_view text, std::string_view pattern);

/// A delay is a standard variable of the law (lognormal: sigma 1; exponential: mean 1; pareto:
/// shape 2.5, from 0), on a scale that gives the strength. Correlation is that of the normal
/// variables behind it (a Gaussian copula): a part common to all workers and one of each worker,
/// both AR(1), over the moments and over its iterations. Errors: UsageError when `workers` cannot
/// have that strength.
[[nodiscard]] std::unique_ptr<IterationDelays> jitter_delays(const Jitter& jitter, int workers,
                                                             double iteration_s,
                                                             std::uint64_t seed);

[[nodiscard]] std::unique_ptr<IterationDelays> recorded_delays(Replay replay);

}  // namespace cohort
