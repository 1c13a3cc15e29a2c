#include "support/layers/reference_kinks.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace cohort::test {
namespace {

/// Of the moves by rounding: one in 10^9 normal numbers is farther away.
constexpr double kDeviations = 6;
/// What is pulled is pulled a little farther than it must be.
constexpr double kMargin = 1.25;
constexpr int kMostSteps = 300;
constexpr int kMostRounds = 10;
/// Roundings that the reach is measured with.
constexpr std::size_t kRoundings = 3;

/// By value with kinks: how far rounding may carry its elements.
using Reaches = std::map<int, double>;

struct Problem {
    const Twin& twin;
    std::vector<double> parameters;
    std::vector<double> state;
    ReferenceBatch batch;

    [[nodiscard]] ReferenceResult forward(Rounding rounding) const {
        ReferenceBatch rounded = batch;
        rounded.rounded = rounding;
        return twin.reference.run_towards(
            twin.graph, parameters, state, rounded,
            [](const ReferenceResult&) { return std::vector<ReferenceNetwork::Pull>{}; });
    }
};

Reaches reaches(const Problem& problem, const std::vector<Rounding>& roundings) {
    const ReferenceResult exact = problem.forward(nullptr);
    std::map<int, double> squares;
    std::map<int, double> counts;
    for (std::size_t r = 0; r < std::min(kRoundings, roundings.size()); ++r) {
        const ReferenceResult rounded = problem.forward(roundings[r]);
        for (std::size_t i = 0; i < exact.kinks.size(); ++i) {
            const ReferenceKink& a = exact.kinks[i];
            const ReferenceKink& b = rounded.kinks[i];
            // Where another candidate wins, both leads are lost.
            const bool same = a.element == b.element && a.rival == b.rival;
            const double move = a.distance + (same ? -b.distance : b.distance);
            squares[a.value] += move * move;
            counts[a.value] += 1;
        }
    }
    Reaches found;
    for (const auto& [value, sum] : squares) {
        found[value] = kDeviations * std::sqrt(sum / counts[value]);
    }
    return found;
}

bool is_close(const ReferenceKink& kink, const Reaches& reaches) {
    return kink.distance != 0 && std::abs(kink.distance) < reaches.at(kink.value);
}

/// One step. @returns how many were close before it
std::size_t pull_away(Problem& problem, const Reaches& reaches) {
    double missing_squares = 0;
    std::size_t close = 0;
    const ReferenceResult found = problem.twin.reference.run_towards(
        problem.twin.graph, problem.parameters, problem.state, problem.batch,
        [&](const ReferenceResult& ahead) {
            std::vector<ReferenceNetwork::Pull> pulls;
            for (const ReferenceKink& kink : ahead.kinks) {
                if (!is_close(kink, reaches)) {
                    continue;
                }
                ++close;
                const double missing = kMargin * reaches.at(kink.value) - std::abs(kink.distance);
                missing_squares += missing * missing;
                const double slope = std::copysign(missing, -kink.distance);
                pulls.push_back({kink.value, kink.element, slope});
                if (kink.rival.has_value()) {
                    pulls.push_back({kink.value, *kink.rival, -slope});
                }
            }
            return pulls;
        });
    if (close == 0) {
        return 0;
    }
    const bool moves_samples = !problem.twin.graph.reads_tokens();
    double slopes = 0;
    for (const double slope : found.gradients) {
        slopes += slope * slope;
    }
    for (const double slope : found.input_gradient) {
        slopes += moves_samples ? slope * slope : 0;
    }
    const double length = slopes > 0 ? missing_squares / slopes : 0;  // 0: nothing moves them
    const auto step = [length](std::vector<double>& values, const std::vector<double>& by) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(values[i] - length * by[i]);
        }
    };
    step(problem.parameters, found.gradients);
    if (moves_samples) {
        step(problem.batch.samples.values, found.input_gradient);
    }
    return close;
}

}  // namespace

KinkClearance clear_kinks(const Twin& twin, Replica& replica, OwnedBatch& batch, std::uint64_t seed,
                          const std::vector<Rounding>& roundings) {
    const std::vector<float> parameters = host_copy(replica, replica.parameters());
    const std::vector<float> state = host_copy(replica, replica.state());
    Problem problem{.twin = twin,
                    .parameters = {parameters.begin(), parameters.end()},
                    .state = {state.begin(), state.end()},
                    .batch = reference_batch(twin, batch, seed)};
    problem.batch.notes_kinks = true;
    KinkClearance found;
    found.kinks = problem.forward(nullptr).kinks.size();
    if (found.kinks == 0) {
        found.clear = true;
        return found;
    }
    // Pulling changes what rounding does, so the reaches are measured again after each round, until
    // no element is close.
    Reaches measured;
    for (int round = 0; round < kMostRounds && !found.clear; ++round) {
        for (const auto& [value, reach] : reaches(problem, roundings)) {
            measured[value] = std::max(measured[value], reach);
            found.reach = std::max(found.reach, reach);
        }
        const int before = found.steps;
        while (found.steps < kMostSteps) {
            const std::size_t close = pull_away(problem, measured);
            found.close = found.steps == 0 ? close : found.close;
            if (close == 0) {
                break;
            }
            ++found.steps;
        }
        found.clear = found.steps == before && found.steps < kMostSteps;
    }
    assign(replica, replica.parameters(),
           std::vector<float>(problem.parameters.begin(), problem.parameters.end()));
    if (!twin.graph.reads_tokens()) {
        batch.samples.assign(problem.batch.samples.values.begin(),
                             problem.batch.samples.values.end());
    }
    return found;
}

}  // namespace cohort::test
