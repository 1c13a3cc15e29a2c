#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sched/modes/batch_balance.hpp"
#include "sched/modes/policies.hpp"
#include "sched/modes/policy_base.hpp"

// Policies that change the samples of a lease, so that all workers take equally long.
namespace cohort {
namespace {

/// A rule for the batches.
using Balance = std::vector<std::int64_t> (*)(const std::vector<double>& times, std::int64_t batch);

/// proportional_batches with pieces as fine as those of `adaptive`.
std::vector<std::int64_t> fine_batches(const std::vector<double>& times, std::int64_t batch) {
    std::vector<CostLine> costs;
    costs.reserve(times.size());
    for (const double time : times) {
        costs.push_back({.fixed_s = 0, .sample_s = time / static_cast<double>(batch)});
    }
    return balanced_batches(costs, batch);
}

/// Changes batches when the slowest worker is then done a tenth earlier.
class BatchPolicy final : public PolicyBase {
public:
    BatchPolicy(Mode mode, const ModeSetting& setting, Balance balance)
        : PolicyBase(std::move(mode), setting),
          balance_(balance),
          batches_(setting.live.size(), setting.batch) {}

protected:
    /// The remaining workers share the work by their times.
    Decision remake(std::string reason) override {
        batches_.assign(batches_.size(), setting().batch);
        Decision made = PolicyBase::remake(std::move(reason));
        if (wishes()) {
            take(balance_(times(), setting().batch));
        }
        made.batches = batches_;
        return made;
    }
    [[nodiscard]] bool wishes() const override {
        constexpr double kGain = 1.1;
        const std::vector<double> now = lease_times(batches(), times());
        const std::vector<double> then = lease_times(balance_(times(), setting().batch), times());
        const double slowest = *std::max_element(now.begin(), now.end());
        return slowest > kGain * *std::max_element(then.begin(), then.end());
    }
    Decision change() override {
        take(balance_(times(), setting().batch));
        return {.plan = {},
                .batches = batches_,
                .reason = fmt::format("batches by own time: {}", fmt::join(batches_, " "))};
    }

private:
    /// Batches in the order of live().
    [[nodiscard]] std::vector<std::int64_t> batches() const {
        std::vector<std::int64_t> samples;
        samples.reserve(live().size());
        for (const int worker : live()) {
            samples.push_back(batches_[static_cast<std::size_t>(worker)]);
        }
        return samples;
    }
    void take(const std::vector<std::int64_t>& samples) {
        for (std::size_t i = 0; i < live().size(); ++i) {
            batches_[static_cast<std::size_t>(live()[i])] = samples[i];
        }
    }

    Balance balance_;
    std::vector<std::int64_t> batches_;  ///< by worker
};

}  // namespace

std::unique_ptr<ModePolicy> make_lb_bsp_policy(Mode mode, const ModeSetting& setting) {
    const bool fine = mode.values.at(0) > 0;  // the second word of the mode's table
    return std::make_unique<BatchPolicy>(std::move(mode), setting,
                                         fine ? fine_batches : proportional_batches);
}

std::unique_ptr<ModePolicy> make_flexrr_policy(Mode mode, const ModeSetting& setting) {
    return std::make_unique<BatchPolicy>(std::move(mode), setting, helped_batches);
}

}  // namespace cohort
