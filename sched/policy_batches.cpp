#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "batch_balance.hpp"
#include "policies.hpp"
#include "policy_base.hpp"

// Policies that change the samples of a lease: everybody should take equally long.
namespace cohort {
namespace {

/// How batches are cut, and when that is worth a change.
struct BalanceRule {
    std::vector<std::int64_t> (*balance)(const std::vector<double>& times, std::int64_t batch);
    double behind;  ///< changes only when somebody takes so much longer than the median
};

class BatchPolicy final : public PolicyBase {
public:
    BatchPolicy(std::string mode, const ModeSetting& setting, BalanceRule rule)
        : PolicyBase(std::move(mode), setting),
          rule_(rule),
          batches_(setting.live.size(), setting.batch) {}

protected:
    /// Who is left shares the work as their times are.
    Decision remake(std::string reason) override {
        batches_.assign(batches_.size(), setting().batch);
        Decision made = PolicyBase::remake(std::move(reason));
        if (wishes()) {
            take(rule_.balance(times(), setting().batch));
        }
        made.batches = batches_;
        return made;
    }
    [[nodiscard]] bool wishes() const override {
        constexpr double kGain = 1.05;
        const std::vector<double> now = lease_times(batches(), times());
        const std::vector<double> then =
            lease_times(rule_.balance(times(), setting().batch), times());
        const double slowest = *std::max_element(now.begin(), now.end());
        return slowest > rule_.behind * median_of(now) &&
               slowest > kGain * *std::max_element(then.begin(), then.end());
    }
    Decision change() override {
        take(rule_.balance(times(), setting().batch));
        return {.plan = {},
                .batches = batches_,
                .reason = fmt::format("batches by own time: {}", fmt::join(batches_, " "))};
    }

private:
    /// In the order of live().
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

    BalanceRule rule_;
    std::vector<std::int64_t> batches_;  ///< by worker
};

}  // namespace

std::unique_ptr<ModePolicy> make_lb_bsp_policy(std::string mode, const ModeSetting& setting,
                                               std::vector<double> /*values*/) {
    return std::make_unique<BatchPolicy>(std::move(mode), setting,
                                         BalanceRule{.balance = proportional_batches, .behind = 0});
}

std::unique_ptr<ModePolicy> make_flexrr_policy(std::string mode, const ModeSetting& setting,
                                               std::vector<double> /*values*/) {
    return std::make_unique<BatchPolicy>(std::move(mode), setting,
                                         BalanceRule{.balance = helped_batches, .behind = kBehind});
}

}  // namespace cohort
