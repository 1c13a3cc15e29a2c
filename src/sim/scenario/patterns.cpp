#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/core/error.hpp"
#include "data/text/csv_text.hpp"
#include "sim/scenario/pattern_parts.hpp"
#include "sim/scenario/trace.hpp"

// What slows a cluster down, and for how long. Every cause draws from random streams of its own,
// keyed by the cause and by whom it hits, so that a scenario depends on the seed alone.

namespace cohort {
namespace {

/// What random numbers are drawn for; the upper half of a stream's key.
enum class Draws : std::uint64_t {
    kPersistent = 1,
    kDelay,
    kHalf,
    kTransient,
    kBlip,
    kOnOff,
    kClustered,
    kBandwidth,
    kColocated,
    kServerHot,
    kHeterogeneous,
};

double uniform_between(Rng& from, double least, double most) {
    return least + (most - least) * static_cast<double>(from.next_uniform());
}
int index_below(Rng& from, std::size_t count) {
    return static_cast<int>(from.next_below(static_cast<std::uint32_t>(count)));
}
TraceTarget worker_target(int index) {
    return {.kind = TraceTarget::Kind::kWorker, .index = index};
}
TraceTarget node_target(int index) {
    return {.kind = TraceTarget::Kind::kNode, .index = index};
}

/// Puts the causes of one pattern into a scenario.
class PatternBuilder {
public:
    PatternBuilder(PatternScenario& scenario, const ClusterShape& shape, std::uint64_t seed)
        : scenario_(scenario), shape_(shape), seed_(seed) {}

    void persistent(double strength) {
        Rng draw = random(Draws::kPersistent);
        steady(worker_target(index_below(draw, shape_.worker_nodes.size())),
               {.device = 1 / strength});
    }

    void delay(double strength) {
        Rng draw = random(Draws::kDelay);
        steady(worker_target(index_below(draw, shape_.worker_nodes.size())),
               {.delay_s = (strength - 1) * shape_.iteration_s});
    }

    void half(double strength) {
        Rng draw = random(Draws::kHalf);
        std::vector<int> workers = shuffled_workers(draw);
        workers.resize((workers.size() + 1) / 2);
        std::sort(workers.begin(), workers.end());
        for (const int each : workers) {
            steady(worker_target(each), {.device = 1 / strength});
        }
    }

    void transient(double strength) { episodes_of_workers(strength, Draws::kTransient, 18); }
    void blip(double strength) { episodes_of_workers(strength, Draws::kBlip, 1); }
    /// A hog takes processors: what is left for input, for a server, and for the thread that feeds
    /// the device goes down alike.
    void on_off(double strength) {
        constexpr double kIterations = 60;
        Rng draw = random(Draws::kOnOff);
        const std::vector<int> nodes = quiet_nodes();
        const int at = nodes[static_cast<std::size_t>(index_below(draw, nodes.size()))];
        const double length_s = kIterations * shape_.iteration_s;
        const double first_s = uniform_between(draw, 0, length_s);
        const auto episode = [=](Rng& /*from*/, double after_s) {
            const double begin_s = after_s == 0 ? first_s : after_s + length_s;
            return Episode{.begin_s = begin_s,
                           .end_s = begin_s + length_s,
                           .target = node_target(at),
                           .shares = {.cpu = 1 / strength, .device = 1 / strength}};
        };
        scenario_.add(episodes_part(draw, episode));
    }

    void clustered(double strength) {
        Rng draw = random(Draws::kClustered);
        const std::vector<int> workers = shuffled_workers(draw);
        const std::size_t groups = std::min(
            workers.size(), std::size_t{2} + static_cast<std::size_t>(index_below(draw, 2)));
        for (std::size_t group = 0; group < groups; ++group) {
            const auto cut = [&](std::size_t at) {
                return workers.begin() + static_cast<std::ptrdiff_t>(workers.size() * at / groups);
            };
            std::vector<int> members(cut(group), cut(group + 1));
            std::sort(members.begin(), members.end());
            // The fastest group is healthy in the middle, the slowest slower by the strength.
            const double place =
                groups == 1 ? 1.0 : static_cast<double>(group) / static_cast<double>(groups - 1);
            const Drift drift{.middle = place * std::log(strength),
                              .deviation = 0.15 * std::log(strength),
                              .step_s = 20 * shape_.iteration_s};
            scenario_.add(
                drift_part(random(Draws::kClustered, static_cast<int>(group) + 1), members, drift));
        }
    }

    /// Speeds are evenly spaced in their logarithm, so that neighbours differ by the same factor.
    void heterogeneous(double strength) {
        Rng draw = random(Draws::kHeterogeneous);
        const std::vector<int> workers = shuffled_workers(draw);
        for (std::size_t place = 1; place < workers.size(); ++place) {
            const double share =
                static_cast<double>(place) / static_cast<double>(workers.size() - 1);
            steady(worker_target(workers[place]), {.device = std::pow(strength, -share)});
        }
    }

    /// A crowded card loses and repeats packets as well: a small delay on top.
    void bandwidth(double strength) {
        constexpr double kDelayShare = 0.02;
        const Shares shares{
            .rx = 1 / strength,
            .tx = 1 / strength,
            .delay_s = kDelayShare * (strength - 1) * shape_.iteration_s,
        };
        const double iteration_s = shape_.iteration_s;
        const auto episode = [=, nodes = quiet_nodes()](Rng& from, double after_s) {
            const double begin_s = after_s + uniform_between(from, 20, 60) * iteration_s;
            const double end_s = begin_s + uniform_between(from, 20, 60) * iteration_s;
            const int at = nodes[static_cast<std::size_t>(index_below(from, nodes.size()))];
            return Episode{
                .begin_s = begin_s, .end_s = end_s, .target = node_target(at), .shares = shares};
        };
        scenario_.add(episodes_part(random(Draws::kBandwidth), episode));
    }

    void colocated(double strength) {
        scenario_.add(job_arrivals(
            random(Draws::kColocated),
            {.others = strength - 1, .iteration_s = shape_.iteration_s, .nodes = shape_.nodes}));
    }

    void server_hot(double strength) {
        Rng draw = random(Draws::kServerHot);
        const std::vector<int>& nodes =
            shape_.server_nodes.empty() ? shape_.worker_nodes : shape_.server_nodes;
        const int at = nodes[static_cast<std::size_t>(index_below(draw, nodes.size()))];
        steady(node_target(at), {.cpu = 1 / strength, .rx = 1 / strength, .tx = 1 / strength});
    }

    /// All of them, each with half of what it would have alone, the drift with a quarter.
    void storm(double strength) {
        const double milder = 1 + (strength - 1) / 2;
        persistent(milder);
        delay(milder);
        transient(milder);
        blip(milder);
        on_off(milder);
        clustered(1 + (strength - 1) / 4);
        bandwidth(milder);
        colocated(milder);
        server_hot(milder);
    }

private:
    [[nodiscard]] Rng random(Draws draws, int index = 0) const {
        return Rng(seed_, RngPurpose::kPattern,
                   (static_cast<std::uint64_t>(draws) << 32) + static_cast<std::uint64_t>(index));
    }
    void steady(TraceTarget target, const Shares& shares) {
        scenario_.add(steady_part(target, shares));
    }
    /// In a share of iterations, 1 to 2 % for up to eight workers and as much more as there are
    /// more of them, a random worker begins to be slow; so each one does so at random moments (a
    /// Poisson process). Lengths count in slow iterations.
    void episodes_of_workers(double strength, Draws draws, double iterations) {
        constexpr int kCrowd = 8;
        Rng common = random(draws, shape_.workers);
        const double probability = uniform_between(common, 0.01, 0.02);
        const double gap_s = shape_.iteration_s * std::min(shape_.workers, kCrowd) / probability;
        const double length_s = iterations * strength * shape_.iteration_s;
        for (int each = 0; each < shape_.workers; ++each) {
            const auto episode = [=](Rng& from, double after_s) {
                const double begin_s = after_s - gap_s * std::log1p(-uniform_between(from, 0, 1));
                return Episode{.begin_s = begin_s,
                               .end_s = begin_s + length_s,
                               .target = worker_target(each),
                               .shares = {.device = 1 / strength}};
            };
            scenario_.add(episodes_part(random(draws, each), episode));
        }
    }

    [[nodiscard]] std::vector<int> shuffled_workers(Rng& from) const {
        std::vector<int> workers(static_cast<std::size_t>(shape_.workers));
        std::iota(workers.begin(), workers.end(), 0);
        for (std::size_t i = workers.size(); i > 1; --i) {
            std::swap(workers[i - 1], workers[static_cast<std::size_t>(index_below(from, i))]);
        }
        return workers;
    }

    /// Nodes that have workers but no server; when there are none, all that have workers.
    [[nodiscard]] std::vector<int> quiet_nodes() const {
        std::vector<int> with_workers = shape_.worker_nodes;
        std::sort(with_workers.begin(), with_workers.end());
        with_workers.erase(std::unique(with_workers.begin(), with_workers.end()),
                           with_workers.end());
        std::vector<int> quiet;
        std::copy_if(
            with_workers.begin(), with_workers.end(), std::back_inserter(quiet), [&](int at) {
                return std::find(shape_.server_nodes.begin(), shape_.server_nodes.end(), at) ==
                       shape_.server_nodes.end();
            });
        return quiet.empty() ? with_workers : quiet;
    }

    PatternScenario& scenario_;
    const ClusterShape& shape_;
    std::uint64_t seed_;
};

constexpr std::string_view kJitter = "jitter";
constexpr std::string_view kRecorded = "recorded";

/// A pattern by name.
struct Pattern {
    PatternInfo info;
    void (PatternBuilder::*build)(double strength) = nullptr;  ///< null: nothing happens
};

const std::vector<Pattern>& known_patterns() {
    using B = PatternBuilder;
    static const std::vector<Pattern> all{
        {{"healthy", 1, "nothing happens"}, nullptr},
        {{"persistent", 2, "one worker's device is slower all the time"}, &B::persistent},
        {{"delay", 2, "one worker waits in every iteration, whatever its batch"}, &B::delay},
        {{"half", 2, "the devices of half the workers are slower"}, &B::half},
        {{"transient", 2, "now and then a random worker is slower for 18 iterations"},
         &B::transient},
        {{"blip", 5, "now and then a random worker is slower for a single iteration"}, &B::blip},
        {{"onoff", 2, "a hog on one node: 60 iterations on, 60 off"}, &B::on_off},
        {{"clustered", 2, "two or three groups of workers whose speeds drift"}, &B::clustered},
        {{"heterogeneous", 3, "every worker's device has another speed, all the time"},
         &B::heterogeneous},
        {{"bandwidth", 5, "now and then a node's network card is slower"}, &B::bandwidth},
        {{"colocated", 3, "other jobs share the nodes, STRENGTH jobs in all on average"},
         &B::colocated},
        {{"server-hot", 3, "a server's node has less processor and network"}, &B::server_hot},
        {{"storm", 2, "everything at once, milder"}, &B::storm},
        {{std::string(kJitter), Jitter().strength,
          "every iteration takes a random time of its own: the slowest STRENGTH times the mean",
          true},
         nullptr},
        {{std::string(kRecorded), 1, "delays of a recording, iteration by iteration", true},
         nullptr},
    };
    return all;
}

const Pattern& find_pattern(std::string_view name, std::string_view text) {
    std::string names;
    for (const Pattern& pattern : known_patterns()) {
        if (pattern.info.name == name) {
            return pattern;
        }
        names += (names.empty() ? "" : ", ") + pattern.info.name;
    }
    refuse_pattern("there is no such pattern", names + ", each with :STRENGTH or without", text);
}

double strength_of(const Pattern& pattern, std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
        return pattern.info.strength;
    }
    constexpr double kMost = 1000;
    const std::optional<double> strength = parsed<double>(text.substr(colon + 1));
    if (!strength || !(*strength >= 1) || *strength > kMost) {
        refuse_pattern("the strength cannot be used", fmt::format("a number from 1 to {}", kMost),
                       text);
    }
    if (pattern.build == nullptr && *strength != 1) {
        refuse_pattern("a healthy cluster has no strength", "healthy", text);
    }
    return *strength;
}

void check_shape(const ClusterShape& shape) {
    check_invariant(shape.workers > 0 && shape.nodes > 0 && shape.iteration_s > 0,
                    "a pattern is laid over workers, nodes and iterations");
    check_invariant(std::cmp_equal(shape.worker_nodes.size(), shape.workers),
                    "a pattern knows every worker's node");
}

/// Patterns of single iterations, whose words are more than a strength; empty: it is another one.
IterationDelays iteration_delays(std::string_view pattern, const ClusterShape& shape,
                                 std::uint64_t seed) {
    const std::size_t colon = std::min(pattern.find(':'), pattern.size());
    const std::string_view name = pattern.substr(0, colon);
    const std::string_view rest = pattern.substr(std::min(colon + 1, pattern.size()));
    if (name == kRecorded) {
        return recorded_delays({find_recording(std::string(rest), "--pattern recorded"), seed});
    }
    if (name != kJitter) {
        return {};
    }
    check_shape(shape);
    const Jitter jitter = rest.empty() ? Jitter() : parse_jitter(rest, pattern);
    return jitter_delays(jitter, shape.workers, shape.iteration_s, seed);
}

}  // namespace

std::unique_ptr<Scenario> make_pattern(std::string_view pattern, const ClusterShape& shape,
                                       std::uint64_t seed) {
    if (auto delays = iteration_delays(pattern, shape, seed)) {
        auto scenario = std::make_unique<PatternScenario>();
        scenario->add(std::move(delays));
        return scenario;
    }
    const Pattern& known = find_pattern(pattern.substr(0, pattern.find(':')), pattern);
    const double strength = strength_of(known, pattern);
    auto scenario = std::make_unique<PatternScenario>();
    if (known.build != nullptr && strength > 1) {
        check_shape(shape);
        PatternBuilder builder(*scenario, shape, seed);
        (builder.*known.build)(strength);
    }
    return scenario;
}

const std::vector<PatternInfo>& patterns() {
    static const std::vector<PatternInfo> infos_of_all = [] {
        std::vector<PatternInfo> infos;
        for (const Pattern& pattern : known_patterns()) {
            infos.push_back(pattern.info);
        }
        return infos;
    }();
    return infos_of_all;
}

}  // namespace cohort
