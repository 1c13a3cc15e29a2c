#include "sim/scenario/pattern_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "core/units.hpp"
#include "data/text/csv_text.hpp"

namespace cohort {
namespace {

constexpr std::array<std::pair<std::string_view, Jitter::Law>, 3> kLaws{
    {{"lognormal", Jitter::Law::kLognormal},
     {"exponential", Jitter::Law::kExponential},
     {"pareto", Jitter::Law::kPareto}}};
constexpr double kParetoShape = 2.5;  ///< a heavy tail that still has a variance
/// Random streams of this cause, beside those of patterns.cpp.
constexpr std::uint64_t kStreams = std::uint64_t{1} << 48;

/// The law's variable that has the same probability below it as a standard normal one at z.
double variable(Jitter::Law law, double z) {
    if (law == Jitter::Law::kLognormal) {
        return std::exp(z);
    }
    const double above = std::max(0.5 * std::erfc(z / std::sqrt(2.0)), 1e-300);
    return law == Jitter::Law::kExponential ? -std::log(above)
                                            : std::pow(above, -1 / kParetoShape) - 1;
}

/// Normal variables of all workers, iteration by iteration.
class CorrelatedNormals {
public:
    CorrelatedNormals(const Jitter& jitter, int workers, std::uint64_t seed)
        : jitter_(jitter), common_(stream(seed, 0)), common_last_(common_.next_normal()) {
        for (int worker = 0; worker < workers; ++worker) {
            own_.push_back({.random = stream(seed, worker + 1)});
            own_.back().last = static_cast<double>(own_.back().random.next_normal());
        }
    }

    /// Of the worker's next iteration.
    double next(int worker, std::int64_t moment) {
        Own& own = own_[static_cast<std::size_t>(worker)];
        own.last = std::exchange(own.begun, true) ? step(own.last, own.random) : own.last;
        return std::sqrt(jitter_.between) * common(static_cast<std::size_t>(moment)) +
               std::sqrt(1 - jitter_.between) * own.last;
    }

private:
    struct Own {
        Rng random;
        double last = 0;
        bool begun = false;  ///< it has had an iteration
    };
    static Rng stream(std::uint64_t seed, int index) {
        return Rng(seed, RngPurpose::kPattern, kStreams + static_cast<std::uint64_t>(index));
    }
    [[nodiscard]] double step(double last, Rng& random) const {
        return jitter_.over * last + std::sqrt(1 - jitter_.over * jitter_.over) *
                                         static_cast<double>(random.next_normal());
    }
    double common(std::size_t moment) {
        while (moments_.size() <= moment) {
            moments_.push_back(static_cast<float>(common_last_));
            common_last_ = step(common_last_, common_);
        }
        return static_cast<double>(moments_[moment]);
    }

    Jitter jitter_;
    Rng common_;
    double common_last_;
    std::vector<float> moments_;
    std::vector<Own> own_;
};

/// Seconds of a unit of the law's variable for which the slowest worker takes `strength` times the
/// mean: with mean m and mean maximum M of the variable, I + M s = strength (I + m s). Both means
/// are those of a sample, the same for every seed.
double scale_of(const Jitter& jitter, int workers, double iteration_s) {
    constexpr int kDraws = 160'000;
    constexpr std::uint64_t kSampleSeed = 1;
    const int sample = std::max(2000, kDraws / workers);
    Jitter one = jitter;
    one.over = 0;  // changes no mean
    CorrelatedNormals normals(one, workers, kSampleSeed);
    double sum = 0;
    double most = 0;
    for (int i = 0; i < sample; ++i) {
        double greatest = 0;
        for (int worker = 0; worker < workers; ++worker) {
            const double value = variable(jitter.law, normals.next(worker, i));
            sum += value / workers;
            greatest = std::max(greatest, value);
        }
        most += greatest;
    }
    const double limit = most / sum;
    if (jitter.strength >= limit) {
        fail<UsageError>(
            {.where = "--pattern jitter",
             .what = counted(workers, "worker") + " cannot differ that much under this law",
             .expected = fmt::format("a strength below {:.3g}", limit),
             .got = fmt::format("{:g}", jitter.strength),
             .hint = "less correlation between workers, or another law"});
    }
    return iteration_s * (jitter.strength - 1) * sample / (most - jitter.strength * sum);
}

double correlation(std::string_view text, std::string_view name, std::string_view pattern) {
    const std::optional<double> value = parsed<double>(text);
    if (!value || !(*value >= 0 && *value < 1)) {
        refuse_pattern(fmt::format("the correlation {} cannot be used", name),
                       "a number from 0 to below 1", pattern);
    }
    return *value;
}

}  // namespace

Jitter parse_jitter(std::string_view text, std::string_view pattern) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(':', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    if (parts.size() > 4) {
        refuse_pattern("too many parts", "jitter[:STRENGTH[:LAW[:BETWEEN[:OVER]]]]", pattern);
    }
    Jitter jitter;
    const std::optional<double> strength = parsed<double>(parts[0]);
    if (!strength || !(*strength >= 1) || !std::isfinite(*strength)) {
        refuse_pattern("the strength cannot be used", "a number from 1", pattern);
    }
    jitter.strength = *strength;
    if (parts.size() > 1) {
        const auto* law = std::find_if(kLaws.begin(), kLaws.end(),
                                       [&](const auto& each) { return each.first == parts[1]; });
        if (law == kLaws.end()) {
            refuse_pattern("there is no such law", "lognormal, exponential or pareto", pattern);
        }
        jitter.law = law->second;
    }
    jitter.between = parts.size() > 2 ? correlation(parts[2], "between workers", pattern) : 0;
    jitter.over = parts.size() > 3 ? correlation(parts[3], "over iterations", pattern) : 0;
    return jitter;
}

IterationDelays jitter_delays(const Jitter& jitter, int workers, double iteration_s,
                              std::uint64_t seed) {
    return [law = jitter.law, workers,
            scale_s = workers > 1 ? scale_of(jitter, workers, iteration_s) : 0,
            normals = CorrelatedNormals(jitter, workers, seed)](int worker,
                                                                std::int64_t moment) mutable {
        return worker < workers ? scale_s * variable(law, normals.next(worker, moment)) : 0;
    };
}

}  // namespace cohort
