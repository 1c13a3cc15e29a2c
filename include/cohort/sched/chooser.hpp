#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// A plan that a chooser weighed.
struct Candidate {
    std::string plan;      ///< as `--mode` writes it; "balanced" for ssgd with uneven batches
    double samples_s = 0;  ///< predicted
    double batch_efficiency = 1;      ///< e_n
    double staleness_efficiency = 1;  ///< e_s
    /// Progress, by which candidates are compared (higher is better): samples_s x both
    /// efficiencies, less the cost of changing to the plan where the chooser counts it.
    double rate = 0;
};

/// One decision of a chooser, kept also when it keeps the plan for a notable reason.
struct DecisionRecord {
    double seconds = 0;  ///< of training
    std::int64_t samples = 0;
    std::string chooser;  ///< "star-h", "adaptive" ...
    std::string from;
    std::string to;
    std::string reason;
    std::vector<Candidate> candidates;  ///< best first; at most 20
    std::vector<int> stragglers;        ///< predicted
    double decide_s = 0;                ///< duration of the decision
    bool kept = false;                  ///< the plan stays, so no change of plan reports the reason
    // Measured from the decision until the next one, or until the end of the run.
    double held_s = 0;
    double measured_samples_s = 0;
    double measured_loss_fall_s = 0;  ///< fall of the training loss per second, smoothed
};

/// "static:4" of "star-h (static:4)", where the mode before the brackets is who chose.
[[nodiscard]] std::string plan_in_label(const std::string& label);
/// "star-h" of the same; empty where no chooser stands before brackets.
[[nodiscard]] std::string chooser_in_label(const std::string& label);
/// A line for logs, once it is over: what was in force, what was measured and predicted. The change
/// of plan that it made has told the reason.
[[nodiscard]] std::string describe(const DecisionRecord& decision);
/// The candidate that a decision chose; null when it is not listed.
[[nodiscard]] const Candidate* chosen_candidate(const DecisionRecord& decision);
/// The best candidate besides the chosen one, with its rate relative to that; empty: there is none.
[[nodiscard]] std::string runner_up_of(const DecisionRecord& decision);

// The published rules, as functions of numbers. Times: [N] seconds of the predicted iterations, >
// 0; batch: b; noise scale: phi in samples. n(M) = 1 + phi / M. docs/choosers.md writes them out.

/// n(M): number of updates of M samples needed, in units of the number that very large batches
/// need.
[[nodiscard]] constexpr double updates_needed(double samples, double noise_scale) noexcept {
    return 1 + noise_scale / samples;
}

/// STAR's two-mode rule: ssgd is kept while n(Nb) max tau <= n((N-1)b) mean tau.
[[nodiscard]] bool keeps_ssgd(std::span<const double> own_s, double batch, double noise_scale);

/// Distance at which groups of times are no longer merged, seconds; as published.
inline constexpr double kStarCut = 0.05;

/// STAR's heuristic (section 4.2): the order x of static x-order, and the cost of dynamic.
struct StarChoice {
    int order = 0;                         ///< x*
    double cost = 0;                       ///< T(x*), seconds per unit of progress
    double dynamic_cost = 0;               ///< T_dyn
    bool dynamic = false;                  ///< dynamic is chosen
    std::vector<std::vector<int>> groups;  ///< groups of dynamic, indices into own_s; fastest first
};
/// @param exact  star-h-exact: dynamic is compared with the simulated time of static x*, instead of
/// the interpolated time, which is never above that of dynamic
/// @param cut  distance of groups, seconds, see star_groups()
[[nodiscard]] StarChoice star_choice(std::span<const double> own_s, double batch,
                                     double noise_scale, bool exact, double cut = kStarCut);
/// Seconds per unit of progress of static x-order: n(xb) t(x), with the published t(x), which
/// interpolates between 1/sum(1/tau) and max tau, or the simulated one. @param order  x, 1..N
[[nodiscard]] double star_static_cost(std::span<const double> own_s, int order, double batch,
                                      double noise_scale, bool exact);
/// Seconds per unit of progress of groups that each wait for all their members: 1 / sum over the
/// groups g of 1/(n(|g|b) max tau_g).
[[nodiscard]] double star_dynamic_cost(std::span<const double> own_s,
                                       const std::vector<std::vector<int>>& groups, double batch,
                                       double noise_scale);
/// Ward's clustering of times: the two nearest groups are merged while their distance
/// sqrt(2 |u||v| / (|u| + |v|)) |mean u - mean v| is below `cut`, seconds. Fastest group first,
/// indices in a group ascending.
[[nodiscard]] std::vector<std::vector<int>> star_groups(std::span<const double> own_s, double cut);

/// For rings: the number of members x at the first local minimum of n(xb) tau_(x).
[[nodiscard]] int star_ring_order(std::span<const double> own_s, double batch, double noise_scale);
/// n(xb) tau_(x).
[[nodiscard]] double star_ring_cost(std::span<const double> own_s, int order, double batch,
                                    double noise_scale);

}  // namespace cohort
