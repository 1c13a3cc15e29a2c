#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sched/fleet/placement_load.hpp"

namespace cohort {

/// Predicts the progress of jobs that share nodes: how fast each goes relative to its pace alone.
///
/// An iteration that lasts 1 alone consists of computing and of phases (input, push, work of
/// servers, pull). A phase takes the share l_j of the iteration alone on its slowest link; a link
/// is the processors or one direction of the card of a node. When phases of two jobs meet at a
/// random moment and share the link by their weights, j loses on the average, with r = w_i / w_j:
///
///   T_i E_ij = l_i l_j + (l_i^2 - l_i^2 / r) / 2      where r l_j >= l_i
///            = r l_j l_i + (r l_j^2 - r^2 l_j^2) / 2   where r l_j <  l_i
///
/// (so r = 1: l_i l_j, whatever the lengths; r -> infinity: l_i l_j + l_i^2 / 2, r -> 0: nothing).
/// w is the job's weight times the number of its activities on the link. When third jobs stretch
/// i's phase, E_ij grows by as much. What all others take beyond the time of the phase's slowest
/// link, summed over its links, lengthens the iteration to T_j; E_ij counts i's phases at its own,
/// longer period T_i, so the T_j are a fixed point. Pairs alone would promise more than a full link
/// can carry: there the losses are raised by one factor per link until the jobs together take just
/// the link's capacity, as sharing that leaves nothing unused must. Processors hold nobody up
/// before they are full.
///
/// Jobs whose workers go at their own pace count as if their transfers came together.
/// Cost: O(kRounds * (uses of links + pairs of uses of a link)).
class ContentionModel {
public:
    /// @param jobs  all with servers, at their pace alone; what runs beside them counts as one more
    /// activity with weight 1
    ContentionModel(std::span<const NodeRoom> nodes, std::span<const PlacedJob> jobs);

    /// Lengths of all jobs' iterations, and by how much the losses at each link are raised.
    struct Solution {
        std::vector<double> lengths;  ///< T_j, by job
        std::vector<double> factors;  ///< by link
        std::vector<double> losses;   ///< by use of a link: sum of E_ij
        [[nodiscard]] double progress(std::size_t job) const { return 1 / lengths[job]; }
    };
    /// @param weights  by job, > 0  @param start  a solution with nearly the same weights, so that
    /// fewer rounds are needed; none: from scratch
    [[nodiscard]] Solution solve(std::span<const double> weights,
                                 const Solution* start = nullptr) const;
    /// The job's phases, alone, on their slowest links; share of the iteration that they take.
    [[nodiscard]] double waits_alone(std::size_t job) const;
    /// Jobs with which the job shares a link.
    [[nodiscard]] std::vector<std::size_t> neighbours(std::size_t job) const;

private:
    enum Phase : std::uint8_t { kInput, kPush, kServe, kPull, kPhases };
    /// What a job's phase takes of a link.
    struct Use {
        std::size_t job = 0;
        Phase phase = kInput;
        double length = 0;  ///< l
        double load = 0;    ///< share of the link, at the pace alone
        double flows = 1;   ///< activities at once, by the part of each that uses the link
    };
    struct Link {
        bool processors = false;
        double used = 0;  ///< share taken by what runs beside the jobs
        std::vector<Use> uses;
    };

    void add_job(const PlacementLoad& load, std::size_t job, std::span<const NodeRoom> nodes,
                 const PlacedJob& placed);
    void add_use(std::size_t link, const Use& use);
    [[nodiscard]] std::vector<double> coefficients(std::span<const double> weights) const;
    void round(std::span<const double> pairs, Solution& solution) const;

    std::size_t jobs_;
    std::vector<Link> links_;    ///< those that several jobs use
    std::vector<double> alone_;  ///< [jobs][phases] length on the slowest link, alone
};

}  // namespace cohort
