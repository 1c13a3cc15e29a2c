#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"
#include "optim/gradient_question.hpp"

namespace cohort {

/// Who wants to know.
struct GradientStatsPolicy {
    bool every_update = false;  ///< the noise scale sets the size of updates (adascale)
    bool now_and_then = false;  ///< modes are chosen by it
    [[nodiscard]] bool any() const noexcept { return every_update || now_and_then; }
};

/// Decides which updates and mini-batches tell about the gradient, and makes numbers of what they
/// tell. The same in real and virtual runs. Pure.
///
/// Noise scale: from updates whose pushes were computed on one version. Where there are none, every
/// kEvery-th lease is computed as two halves, which are two mini-batches of one version.
/// Curvature: two mean gradients a reference batch apart (under a plan with a scale of the learning
/// rate: 1 / scale of them). Their samples differ, so the product's mean is <G, G'> without a share
/// of noise, and (1 - <G, G'> / |G|^2) per reference batch is --lr / (1 - momentum) times the
/// curvature along the step, whatever the plan's scale.
class GradientStatistics {
public:
    static constexpr int kEvery = 8;    ///< updates, and leases, between two measurements
    static constexpr int kSeldom = 56;  ///< updates between two gradients kept, after the first few

    /// @param reference_batch  B, samples
    explicit GradientStatistics(std::int64_t reference_batch)
        : reference_batch_(static_cast<double>(reference_batch)) {}

    /// What to ask of an update; to be called for every one. `fire.version` names it.
    [[nodiscard]] GradientQuestion ask(const Fire& fire, const SyncPlan& plan,
                                       const GradientStatsPolicy& wish);
    /// The answer about the update to `version`, of which something was asked. An answer that is
    /// not a number says nothing.
    void answered(std::int64_t version, const GradientAnswer& answer);
    /// The same of an update that was asked about before it was computed.
    /// @param norms  |g| of its pushes, in their order
    void answered(std::int64_t version, const GradientAnswer& answer,
                  const std::vector<double>& norms);
    /// An update of so many samples that was asked about does not come about.
    void withdrawn(std::int64_t version, std::int64_t samples, double lr_scale);

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
    /// Learning rate / (1 - momentum) x curvature along the step; 0: not known yet.
    [[nodiscard]] double step_curvature() const noexcept;
    /// <G, G'> / |G|^2 of mean gradients a reference batch apart; 0: not known yet.
    [[nodiscard]] double agreement() const noexcept;
    /// |G|^2, smoothed; 0: not known yet.
    [[nodiscard]] double gradient_squares() const noexcept;
    /// Updates and leases that were measured.
    [[nodiscard]] std::int64_t measured() const noexcept { return noise_.count(); }

private:
    struct Asked {
        std::vector<GradientNorm> norms;
        double distance = 0;  ///< reference batches from the gradient kept; 0: not compared
        bool keep = false;
    };

    void compare_with_kept(double product, double distance) noexcept;

    static constexpr double kRate = 0.05;  ///< of the newest measurement, in means
    static constexpr int kFew = 10;

    double reference_batch_;
    double travelled_ = 0;  ///< reference batches, times the plans' scales of the learning rate
    NoiseScale noise_{kRate};
    std::map<std::int64_t, Asked> asked_;  ///< by version
    std::optional<double> kept_;           ///< where: reference batches
    double product_ = 0;
    double squares_ = 0;        ///< |G|^2, as it was known with each product
    std::int64_t kept_at_ = 0;  ///< update
    double distance_ = 0;
    int compared_ = 0;
    std::int64_t updates_ = 0;
    std::int64_t alike_ = 0;     ///< update that had pushes of one version
    std::int64_t measured_ = 0;  ///< update
    std::int64_t leases_ = 0;    ///< since one was halved
};

}  // namespace cohort
