#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"

namespace cohort {

class LoadMonitor;
class ModeController;
struct SessionOptions;

/// Who wants to know.
struct GradientStatsPolicy {
    bool every_update = false;  ///< the noise scale sets the size of updates (adascale)
    bool now_and_then = false;  ///< modes are chosen by it
    [[nodiscard]] bool any() const noexcept { return every_update || now_and_then; }
};

/// Decides which updates and mini-batches tell the gradient's noise scale, and estimates it from
/// what they tell. The same in real and virtual runs. Pure.
///
/// Updates tell it whose pushes were computed on one version. Where there are none, every kEvery-th
/// lease is computed as two halves, which are two mini-batches of one version.
class GradientStatistics {
public:
    static constexpr int kEvery = 8;  ///< updates, and leases, between two measurements
    static constexpr int kOften = 2;  ///< updates between the first kFew: choosers wait for them
    static constexpr int kFew = 10;

    /// Whether to ask for the norm of an update's mean gradient; to be called for every update.
    /// `fire.version` names it.
    [[nodiscard]] bool ask(const Fire& fire, const SyncPlan& plan, const GradientStatsPolicy& wish);
    /// The answer about the update to `version`, which was asked about.
    /// @param squares  |G|^2 of its mean gradient; one that is not a number says nothing
    /// @param norms  |g| of its pushes, in their order, if it was asked about before it was
    /// computed
    void answered(std::int64_t version, double squares,
                  const std::optional<std::vector<double>>& norms = {});
    /// An update does not come about.
    void withdrawn(std::int64_t version) { asked_.erase(version); }

    /// Whether the next lease, of so many samples, is to be computed as two halves.
    [[nodiscard]] bool halve(const SyncPlan& plan, std::int64_t samples,
                             const GradientStatsPolicy& wish);
    /// Samples of the first half of such a lease.
    [[nodiscard]] static constexpr std::int64_t first_half(std::int64_t samples) noexcept {
        return samples / 2;
    }
    /// |g|^2 of each half, and of the mean over all samples.
    void halves(std::int64_t samples, const std::array<double, 2>& squares, double mean_squares);

    /// phi, samples; 0: not known yet.
    [[nodiscard]] double noise_scale() const noexcept { return noise_.samples(); }
    /// Updates and leases that were measured.
    [[nodiscard]] std::int64_t measured() const noexcept { return noise_.count(); }

private:
    static constexpr double kRate = 0.05;  ///< of the newest measurement, in means

    NoiseScale noise_{kRate};
    /// The updates' pushes, by version.
    std::map<std::int64_t, std::vector<GradientNorm>> asked_;
    std::int64_t updates_ = 0;
    std::int64_t alike_ = 0;     ///< update that had pushes of one version
    std::int64_t measured_ = 0;  ///< update
    std::int64_t leases_ = 0;    ///< since one was halved
};

/// Measures the gradients of a session as often as the plan or the mode in charge asks for it, and
/// hands the new estimates to engine, load monitor and observer. Pure.
class GradientMeasurement {
public:
    /// All of them outlive it. @param load  null: no times are looked at
    GradientMeasurement(const SessionOptions& options, const ModeController& modes,
                        UpdateEngine& engine, LoadMonitor* load);

    /// Who wants to know what gradients tell.
    [[nodiscard]] GradientStatsPolicy policy() const;
    /// Whether to ask for the norm of an update's mean gradient. To be called for every update.
    [[nodiscard]] bool ask(const Fire& fire) {
        return statistics_.ask(fire, engine_.plan(), policy());
    }
    /// The answer, see GradientStatistics.
    void answered(std::int64_t version, double squares,
                  const std::optional<std::vector<double>>& norms = {});
    /// An update does not come about.
    void withdrawn(std::int64_t version) { statistics_.withdrawn(version); }
    /// Whether the next lease, of so many samples, is to be computed as two halves.
    [[nodiscard]] bool halve(std::int64_t samples) {
        return statistics_.halve(engine_.plan(), samples, policy());
    }
    /// A lease was computed as two halves. @param squares  |g|^2 of each  @param norm  |g| of the
    /// mean over all samples
    void halves(std::int64_t samples, const std::array<double, 2>& squares, double norm);
    [[nodiscard]] const GradientStatistics& statistics() const noexcept { return statistics_; }

private:
    void tell() const;

    const SessionOptions& options_;
    const ModeController& modes_;
    UpdateEngine& engine_;
    LoadMonitor* load_;
    GradientStatistics statistics_;
};

}  // namespace cohort
