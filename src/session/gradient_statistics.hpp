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

class LoadMonitor;
class ModeController;
struct SessionOptions;

/// Who wants to know.
struct GradientStatsPolicy {
    bool every_update = false;  ///< the noise scale sets the size of updates (adascale)
    bool now_and_then = false;  ///< modes are chosen by it
    [[nodiscard]] bool any() const noexcept { return every_update || now_and_then; }
};

/// How much mean gradients agree with those a reference batch before. Products <G, G'> are smoothed
/// together with |G|^2 as it was known then. Pure.
class GradientAgreement {
public:
    /// @param product  <G, G'>; one that is not a number says nothing  @param squares  |G|^2
    /// @param distance  between the two, reference batches
    void add(double product, double squares, double distance) noexcept;
    /// Products, until now.
    [[nodiscard]] int count() const noexcept { return count_; }
    /// <G, G'> / |G|^2; 0: not known yet.
    [[nodiscard]] double mean() const noexcept;
    /// What is missing to 1, per reference batch; 0: not known yet.
    [[nodiscard]] double fall() const noexcept;

private:
    int count_ = 0;
    double product_ = 0;
    double squares_ = 0;
    double distance_ = 0;
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
    static constexpr int kEvery = 8;  ///< updates, and leases, between two measurements
    static constexpr int kOften = 2;  ///< updates between the first kFew: choosers wait for them
    static constexpr int kFew = 10;
    /// Updates between two gradients kept, after the first kFew.
    static constexpr int kSeldom = 56;

    /// @param reference_batch  B, samples
    explicit GradientStatistics(std::int64_t reference_batch)
        : reference_batch_(static_cast<double>(reference_batch)) {}

    /// What to ask of an update; to be called for every one. `fire.version` names it.
    [[nodiscard]] GradientQuestion ask(const Fire& fire, const SyncPlan& plan,
                                       const GradientStatsPolicy& wish);
    /// The answer about the update to `version`, of which something was asked. An answer that is
    /// not a number says nothing.
    /// @param norms  |g| of its pushes, in their order, if it was asked about before it was
    /// computed
    void answered(std::int64_t version, const GradientAnswer& answer,
                  const std::optional<std::vector<double>>& norms = {});
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
    [[nodiscard]] double step_curvature() const noexcept { return agreement_.fall(); }
    /// <G, G'> / |G|^2 of mean gradients a reference batch apart; 0: not known yet.
    [[nodiscard]] double agreement() const noexcept { return agreement_.mean(); }
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

    static constexpr double kRate = 0.05;  ///< of the newest measurement, in means

    double reference_batch_;
    double travelled_ = 0;  ///< reference batches, times the plans' scales of the learning rate
    NoiseScale noise_{kRate};
    std::map<std::int64_t, Asked> asked_;  ///< by version
    std::optional<double> kept_;           ///< where: reference batches
    std::int64_t kept_at_ = 0;             ///< update
    GradientAgreement agreement_;
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
    /// What to ask about an update's gradient. To be called for every update.
    [[nodiscard]] GradientQuestion ask(const Fire& fire) {
        return statistics_.ask(fire, engine_.plan(), policy());
    }
    /// The answer to that question, see GradientStatistics.
    void answered(std::int64_t version, const GradientAnswer& answer,
                  const std::optional<std::vector<double>>& norms = {});
    /// An update of so many samples that was asked about does not come about.
    void withdrawn(std::int64_t version, std::int64_t samples) {
        statistics_.withdrawn(version, samples, engine_.plan().lr_scale);
    }
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
