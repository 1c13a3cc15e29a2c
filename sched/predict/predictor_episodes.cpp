// Workers are quick or slow for a while: phases of about one level. The lengths of earlier phases
// reveal a periodic hog: the present phase is predicted to end when earlier phases of its kind
// ended, given its age, and to be followed by a phase like the last one of the other kind.
//
// The end of slowness is predicted from the slow phases of all workers. Its begin is predicted only
// where a worker's own quick phases lasted about equally long; otherwise the next victim and time
// cannot be predicted. Times are by the records' clock, not in iterations, as slow iterations are
// longer.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "cohort/sched/policy.hpp"
#include "sched/predict/predictors.hpp"
#include "sched/telemetry/newest_quantile.hpp"

namespace cohort {
namespace {

constexpr double kOtherLevel =
    1.15;  ///< a level above this factor, or below its inverse, is another level
constexpr double kAlike = 1.25;  ///< the same for comparing phases
constexpr double kUsual = 0.2;   ///< quantile of own times
constexpr std::size_t kPhases =
    64;  ///< remembered phases of a worker, and slow phases of all workers
constexpr std::size_t kEnoughPhases = 2;  ///< phases needed to predict a length
constexpr double kRegular =
    0.3;  ///< distance of the quartiles over the median, below which phases are about equally long
constexpr double kOverdue =
    1.2;  ///< times the longest earlier phase: the present phase is of another kind

bool differ(double a, double b, double factor) {
    return a > factor * b || b > factor * a;
}

/// A finished phase.
struct Phase {
    double own_s = 0;     ///< per batch
    double level = 1;     ///< own_s over the usual own time
    double seconds = 0;   ///< duration
    double period_s = 0;  ///< mean time between records
    [[nodiscard]] bool slow() const { return level > kOtherLevel; }
};

/// The present phase of a worker.
struct Present {
    OwnTime own;
    double begin_s = 0;
    double newest_s = 0;
    std::int64_t records = 0;

    void add(double at_s, double own_s) {
        begin_s = records == 0 ? at_s : begin_s;
        newest_s = at_s;
        ++records;
        own.add(own_s);
    }
    [[nodiscard]] double age_s() const { return newest_s - begin_s; }
    [[nodiscard]] double period_s() const {
        const double mean_s = records > 1 ? age_s() / static_cast<double>(records - 1) : 0;
        return mean_s > 0 ? mean_s : own.seconds();
    }
};

/// Sorted lengths of phases.
using Lengths = std::vector<double>;

double phase_quantile(const Lengths& sorted, double share) {
    return sorted[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

bool regular(const Lengths& sorted) {
    return sorted.size() >= kEnoughPhases &&
           phase_quantile(sorted, 0.75) - phase_quantile(sorted, 0.25) <
               kRegular * phase_quantile(sorted, 0.5);
}

/// Remaining time of a phase of a given age: from the median of the phases that lasted longer.
/// @return none: not known
std::optional<double> left_of(const Lengths& sorted, double age_s) {
    if (sorted.size() < kEnoughPhases || age_s > kOverdue * sorted.back()) {
        return std::nullopt;
    }
    const Lengths longer(std::ranges::upper_bound(sorted, age_s), sorted.end());
    return longer.empty() ? 0 : phase_quantile(longer, 0.5) - age_s;
}

class EpisodesPredictor final : public WorkerPredictor {
public:
    EpisodesPredictor(int workers, std::int64_t batch)
        : WorkerPredictor(workers, batch), workers_(static_cast<std::size_t>(workers)) {}

    std::string_view name() const override { return "episodes"; }

    void add_own(const IterationRecord& record, double own_s) override {
        Worker& worker = workers_.at(static_cast<std::size_t>(record.worker));
        worker.usual.add(static_cast<float>(own_s));
        const double at_s = record.arrived_s;
        if (worker.now.records == 0 || !differ(own_s, worker.now.own.seconds(), kOtherLevel)) {
            worker.now.add(at_s, own_s);
            worker.next.reset();
            return;
        }
        if (worker.next && !differ(own_s, worker.next->own.seconds(), kOtherLevel)) {
            worker.next->add(at_s, own_s);
            turn(worker);
            return;
        }
        // The first record of another level, or one in between: the new level counts from here on.
        Present next;
        next.add(worker.next ? worker.next->begin_s : at_s, own_s);
        next.newest_s = at_s;
        worker.next = next;
    }

    void forget(int worker) override { workers_.at(static_cast<std::size_t>(worker)) = {}; }

    bool predict_own(int worker, std::span<float, kMaxHorizon> own_s) const override {
        const Worker& of = workers_.at(static_cast<std::size_t>(worker));
        if (of.now.records == 0) {
            return false;
        }
        Phase phase = present(of);
        std::optional<double> left_s = left(of, phase, of.next ? 0 : of.now.age_s());
        for (float& each : own_s) {
            if (left_s && *left_s < phase.period_s / 2) {
                phase = following(of, phase);
                left_s = left(of, phase, 0);
            }
            each = static_cast<float>(phase.own_s);
            if (left_s) {
                *left_s -= phase.period_s;
            }
        }
        return true;
    }

private:
    struct Worker {
        NewestQuantile usual;
        Present now;
        std::optional<Present>
            next;  ///< set when there are records of another level, but not yet two similar ones
        std::deque<Phase> phases;  ///< finished phases, newest last
        bool first = true;         ///< the present phase is the first, whose begin is unknown
    };

    static Phase as_phase(const Worker& worker, const Present& present, double seconds) {
        const double usual_s = static_cast<double>(worker.usual.at(kUsual));
        return {.own_s = present.own.seconds(),
                .level = present.own.seconds() / usual_s,
                .seconds = seconds,
                .period_s = present.period_s()};
    }

    static Phase present(const Worker& worker) {
        Phase phase = as_phase(worker, worker.next ? *worker.next : worker.now, 0);
        if (worker.next) {
            phase.period_s = std::max(phase.own_s, worker.now.period_s());
        }
        return phase;
    }

    /// Ends the present phase.
    void turn(Worker& worker) {
        const Phase over = as_phase(worker, worker.now, worker.next->begin_s - worker.now.begin_s);
        if (!worker.first) {
            remember(worker.phases, over);
            if (over.slow()) {
                remember(slow_, over);
            }
        }
        worker.first = false;
        worker.now = *worker.next;
        worker.next.reset();
    }

    static void remember(std::deque<Phase>& phases, const Phase& phase) {
        phases.push_back(phase);
        if (phases.size() > kPhases) {
            phases.pop_front();
        }
    }

    static Lengths lengths(const std::deque<Phase>& phases, const Phase& like) {
        Lengths lengths;
        for (const Phase& each : phases) {
            if (each.slow() == like.slow() && !differ(each.level, like.level, kAlike)) {
                lengths.push_back(each.seconds);
            }
        }
        std::ranges::sort(lengths);
        return lengths;
    }

    [[nodiscard]] std::optional<double> left(const Worker& worker, const Phase& phase,
                                             double age_s) const {
        const Lengths own = lengths(worker.phases, phase);
        if (!phase.slow()) {
            return regular(own) ? left_of(own, age_s) : std::nullopt;
        }
        return left_of(own.size() >= kEnoughPhases ? own : lengths(slow_, phase), age_s);
    }

    /// Predicted next phase: after a slow phase the phase before it, or the usual level; after a
    /// quick phase the last slow phase.
    [[nodiscard]] static Phase following(const Worker& worker, const Phase& phase) {
        const auto last =
            std::find_if(worker.phases.rbegin(), worker.phases.rend(),
                         [&](const Phase& each) { return each.slow() != phase.slow(); });
        if (last != worker.phases.rend()) {
            return *last;
        }
        const double usual_s = static_cast<double>(worker.usual.at(kUsual));
        return {.own_s = usual_s, .period_s = usual_s};
    }

    std::vector<Worker> workers_;
    std::deque<Phase> slow_;  ///< slow phases of all workers
};

}  // namespace

std::unique_ptr<WorkerPredictor> make_episodes_predictor(int workers, std::int64_t batch) {
    return std::make_unique<EpisodesPredictor>(workers, batch);
}

}  // namespace cohort
