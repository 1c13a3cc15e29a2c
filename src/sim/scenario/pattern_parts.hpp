#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/rng.hpp"
#include "data/dataset/recording.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {

/// What a worker's next iteration takes longer than a healthy one, whatever its batch, seconds >=
/// 0. What workers have in common belongs to a *moment*: the reference batches that the job has
/// done when the iteration begins. So it is the same for all who begin at the same time, whatever
/// came before.
using IterationDelays = std::function<double(int worker, std::int64_t moment)>;

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
[[nodiscard]] IterationDelays jitter_delays(const Jitter& jitter, int workers, double iteration_s,
                                            std::uint64_t seed);

[[nodiscard]] inline IterationDelays recorded_delays(Replay replay) {
    return [replay = std::move(replay)](int worker, std::int64_t moment) {
        return replay.delay_s(worker, static_cast<std::uint64_t>(moment));
    };
}

/// Errors: UsageError, always: what --pattern says cannot be used.
[[noreturn]] void refuse_pattern(std::string_view what, const std::string& expected,
                                 std::string_view pattern);

/// One cause of slowness: rows as of Scenario::next_row. They say what it leaves its targets,
/// whatever others do to them.
using PatternPart = std::function<std::optional<TraceRow>()>;

/// The same from the beginning on.
[[nodiscard]] PatternPart steady_part(const TraceTarget& target, const Shares& shares);

struct Episode {
    double begin_s = 0;
    double end_s = 0;
    TraceTarget target;
    Shares shares;
};
/// The next episode, which begins at `after_s` or later.
using DrawEpisode = std::function<Episode(Rng& random, double after_s)>;
/// Healthy, slow for a while, healthy again, without end.
[[nodiscard]] PatternPart episodes_part(const Rng& random, DrawEpisode draw);

struct Drift {
    double middle = 0;     ///< logarithm of the slowness
    double deviation = 0;  ///< of the logarithm, in the long run
    double step_s = 0;     ///< between two changes, on average
};
/// A group of workers whose speed drifts: the logarithm of its slowness goes from step to step back
/// to a middle, by a tenth of the way, and a random step aside (an AR(1) process); a worker is
/// never faster than healthy.
/// @param workers  at least one
[[nodiscard]] PatternPart drift_part(Rng random, std::vector<int> workers, const Drift& drift);

struct ArrivalLaw {
    double others = 0;       ///< jobs at work at a time, on average; > 0
    double iteration_s = 1;  ///< healthy
    int nodes = 1;
};
/// Jobs that come and go: the next one, without end.
using JobArrivals = std::function<JobArrival()>;
[[nodiscard]] JobArrivals job_arrivals(const Rng& random, const ArrivalLaw& law);

/// Several causes at once: shares are multiplied, delays added; one row per target and time.
class PatternScenario final : public Scenario {
public:
    void add(PatternPart part);
    void add(JobArrivals arrivals) { arrivals_ = std::move(arrivals); }
    void add(IterationDelays delays) { delays_ = std::move(delays); }

    std::optional<TraceRow> next_row() override;
    std::optional<JobArrival> next_job() override {
        return arrivals_ ? std::optional(arrivals_()) : std::nullopt;
    }
    double next_delay_s(int worker, std::int64_t moment) override {
        return delays_ ? delays_(worker, moment) : 0;
    }

private:
    /// The next row of a part; the earliest comes first, of equal ones that of the first part.
    struct Waiting {
        TraceRow row;
        std::size_t part = 0;
        bool operator<(const Waiting& other) const noexcept {
            return std::pair(other.row.time_s, other.part) < std::pair(row.time_s, part);
        }
    };
    void ask(std::size_t part);
    void take_moment();
    [[nodiscard]] Shares combined(const TraceTarget& target) const;

    std::vector<PatternPart> parts_;
    std::priority_queue<Waiting> waiting_;
    /// What each part leaves its targets.
    std::map<TraceTarget, std::map<std::size_t, Shares>> left_;
    std::vector<TraceRow> rows_;  ///< of this moment, the next one last
    JobArrivals arrivals_;        ///< empty: there are none
    IterationDelays delays_;      ///< empty: there are none
};

}  // namespace cohort
