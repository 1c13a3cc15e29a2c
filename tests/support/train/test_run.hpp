#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/coordinator/update_driver.hpp"

namespace cohort::test {

/// An update, and the leases that it has applied.
struct AppliedUpdate : UpdateOrder {
    std::vector<std::uint64_t> leases;
};

/// All members of a ring were lost after so many updates; the newest ones were undone.
struct Succession {
    std::size_t after = 0;
    std::int64_t undone = 0;
    std::int64_t samples = 0;  ///< of these
    std::string why;
};

/// A run without hooks, files or a clock, that keeps what it is told.
class TestRun final : public UpdateObserver, private SessionObserver {
public:
    /// @param samples  budget @param measure_gradients  see SessionOptions
    TestRun(const JobContext& job, int workers, std::int64_t samples, SyncPlan plan,
            Architecture architecture, bool measure_gradients = false)
        : session_({.workers = workers,
                    .batch = job.options.batch,
                    .reference_batch = job.reference_batch,
                    .budget_samples = samples,
                    .noise_scale = job.options.noise_scale,
                    .measure_gradients = measure_gradients,
                    .monitor_load = false,
                    .learning_rate =
                        [&job](std::int64_t applied) {
                            return job.schedule.lr(job.options.lr, applied);
                        },
                    .now = [] { return SessionTime(); },
                    .predictor = {},
                    .observer = this},
                   modes(architecture, workers, job.options.batch),
                   LeaseLedger(job.train_set->info(), job.order, samples), {}, {}) {
        (void)session_.engine().install(std::move(plan));
    }

    [[nodiscard]] TrainingSession& session() override { return session_; }
    [[nodiscard]] OpenLeases& leases() { return session_.leases().open(); }
    [[nodiscard]] UpdateEngine& engine() { return session_.engine(); }
    [[nodiscard]] bool stopping() const { return session_.stopping(); }
    [[nodiscard]] std::int64_t applied() const { return session_.counts().samples_applied; }
    [[nodiscard]] UpdateExtras decide(std::int64_t samples) override {
        return on_decide ? on_decide(samples) : std::exchange(extras, {});
    }
    void updated(const UpdateOrder& update) override {
        updates.push_back({update, {}});
        for (const UpdateTerm& term : update.terms) {
            updates.back().leases.push_back(term.lease);
        }
        if (on_update) {
            on_update(update);
        }
    }
    void taken(const UpdateExtras& /*extras*/, int parts) override { evaluation_parts = parts; }
    void drop(const NonFiniteBatch& batch) override { dropped.push_back(batch); }
    void undone(std::int64_t count, std::int64_t samples, const std::string& why) override {
        successions.push_back({updates.size(), count, samples, why});
    }
    void timed(const IterationRecord& record) override {
        timed_samples[record.worker] += record.samples;
        records.push_back(record);
    }

    UpdateExtras extras;  ///< of the next update
    std::function<UpdateExtras(std::int64_t)> on_decide;
    std::function<void(const UpdateOrder&)> on_update;
    int evaluation_parts = 0;
    std::vector<GradientFacts> gradients;
    std::vector<AppliedUpdate> updates;
    std::vector<NonFiniteBatch> dropped;
    std::vector<Succession> successions;
    std::vector<PushOutcome> outcomes;
    std::vector<std::string> plans;  ///< that were installed
    std::vector<IterationRecord> records;
    std::map<int, std::int64_t> timed_samples;

private:
    static ModeController modes(Architecture architecture, int workers, std::int64_t batch) {
        const ModeSetting setting{
            .architecture = architecture,
            .live = std::vector<bool>(static_cast<std::size_t>(workers), true),
            .batch = batch};
        return {
            {.modes = parse_mode_schedule("0:" + default_mode(architecture), setting)}, setting, 0};
    }
    void settled(const PushOutcome& outcome) override { outcomes.push_back(outcome); }
    void installed(const SyncPlan& plan) override { plans.push_back(plan.name); }
    void measured(const GradientFacts& facts) override { gradients.push_back(facts); }

    TrainingSession session_;
};

}  // namespace cohort::test
