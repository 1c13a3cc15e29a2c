#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/rng.hpp"
#include "data/dataset/recording.hpp"
#include "sim/scenario/trace.hpp"

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

/// One cause of slowness. Rows say what it leaves its targets, whatever others do to them.
class PatternPart {
public:
    PatternPart() = default;
    PatternPart(const PatternPart&) = delete;
    PatternPart& operator=(const PatternPart&) = delete;
    virtual ~PatternPart() = default;
    /// As Scenario::next_row.
    [[nodiscard]] virtual std::optional<TraceRow> next() = 0;
};

/// The same from the beginning on.
class SteadyPart final : public PatternPart {
public:
    SteadyPart(TraceTarget target, const Shares& shares)
        : row_(TraceRow{.time_s = 0, .target = target, .shares = shares}) {}
    std::optional<TraceRow> next() override { return std::exchange(row_, std::nullopt); }

private:
    std::optional<TraceRow> row_;
};

/// Healthy, slow for a while, healthy again, without end.
class EpisodesPart final : public PatternPart {
public:
    struct Episode {
        double begin_s = 0;
        double end_s = 0;
        TraceTarget target;
        Shares shares;
    };
    /// The next episode, which begins at `after_s` or later.
    using Draw = std::function<Episode(Rng& random, double after_s)>;

    EpisodesPart(const Rng& random, Draw draw) : random_(random), draw_(std::move(draw)) {}
    std::optional<TraceRow> next() override;

private:
    Rng random_;
    Draw draw_;
    Episode episode_;
    bool slow_ = false;
};

/// A group of workers whose speed drifts: the logarithm of its slowness goes from step to step back
/// to a middle, by a tenth of the way, and a random step aside (an AR(1) process); a worker is
/// never faster than healthy.
class DriftPart final : public PatternPart {
public:
    struct Drift {
        double middle = 0;     ///< logarithm of the slowness
        double deviation = 0;  ///< of the logarithm, in the long run
        double step_s = 0;     ///< between two changes, on average
    };
    /// @param workers  at least one
    DriftPart(const Rng& random, std::vector<int> workers, const Drift& drift);
    std::optional<TraceRow> next() override;

private:
    void set_share();

    Rng random_;
    std::vector<int> workers_;
    Drift drift_;
    double time_s_ = 0;
    double aside_ = 0;  ///< from the middle
    double device_ = 1;
    std::size_t at_ = 0;  ///< next worker of this step
};

/// Jobs that come and go.
class ArrivalList {
public:
    struct Law {
        double others = 0;       ///< at work at a time, on average; > 0
        double iteration_s = 1;  ///< healthy
        int nodes = 1;
    };
    ArrivalList(const Rng& random, const Law& law);
    [[nodiscard]] JobArrival next();

private:
    [[nodiscard]] JobArrival draw(double time_s, double iterations);

    Rng random_;
    Law law_;
    int first_ = 0;  ///< jobs that are there from the beginning and were not told yet
    double time_s_ = 0;
};

/// Several causes at once: shares are multiplied, delays added; one row per target and time.
class PatternScenario final : public Scenario {
public:
    void add(std::unique_ptr<PatternPart> part);
    void add(const ArrivalList& arrivals) { arrivals_ = arrivals; }
    void add(std::unique_ptr<IterationDelays> delays) { delays_ = std::move(delays); }

    std::optional<TraceRow> next_row() override;
    std::optional<JobArrival> next_job() override;
    double next_delay_s(int worker, std::int64_t moment) override {
        return delays_ ? delays_->next_s(worker, moment) : 0;
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

    std::vector<std::unique_ptr<PatternPart>> parts_;
    std::priority_queue<Waiting> waiting_;
    /// What each part leaves its targets.
    std::map<TraceTarget, std::map<std::size_t, Shares>> left_;
    std::vector<TraceRow> rows_;  ///< of this moment, the next one last
    std::optional<ArrivalList> arrivals_;
    std::unique_ptr<IterationDelays> delays_;
};

}  // namespace cohort
