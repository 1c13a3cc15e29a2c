#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "cohort/core/rng.hpp"
#include "sim/scenario/iteration_delays.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {

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
