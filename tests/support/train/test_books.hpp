#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/coordinator/update_flow.hpp"
#include "train/run/job_parts.hpp"

namespace cohort::test {

/// The books of a run that only counts.
class TestBooks final : public RunBooks {
public:
    TestBooks(const JobParts& job, int workers, std::int64_t samples, SyncPlan plan)
        : samples_(samples),
          leases_(LeaseBook(job.train_set->info(), job.order, samples), samples,
                  {.workers = workers, .batch = job.options.batch}, {}),
          engine_({.workers = workers, .reference_batch = job.reference_batch}, std::move(plan)) {}

    [[nodiscard]] LeaseDesk& leases() override { return leases_; }
    [[nodiscard]] UpdateEngine& engine() override { return engine_; }
    [[nodiscard]] std::int64_t samples_applied() const override { return applied_; }
    [[nodiscard]] bool stopping() const override { return stop || leases_.finished(); }
    [[nodiscard]] UpdateExtras decide(std::int64_t /*samples*/) override {
        return std::exchange(extras, {});
    }
    void commit(const UpdateRecord& update) override {
        for (const std::uint64_t lease : update.leases) {
            leases_.applied(lease);
        }
        applied_ += update.result.samples;
        updates.push_back(update);
        if (on_commit) {
            on_commit();
        }
    }
    void taken(const UpdateExtras& /*extras*/, int /*evaluation_parts*/) override {}
    void drop(const BatchResult& /*result*/, const std::string& /*because*/) override { ++dropped; }
    void spent(double /*compute_s*/, double /*exposed_s*/, double /*exchange_s*/) override {}
    void begun(int worker, std::int64_t samples) override { running[worker] = samples; }
    void stopped(int worker) override { running.erase(worker); }
    void timed(const IterationRecord& record) override {
        running.erase(record.worker);
        timings.push_back(record);
    }
    void settled(const PushOutcome& outcome) override { outcomes.push_back(outcome); }
    void installed(const SyncPlan& plan) override { plans.push_back(plan.name); }
    [[nodiscard]] bool wants_gradients() const override { return wants; }
    void measured(const GradientFacts& facts) override { gradients.push_back(facts); }

    bool stop = false;
    bool wants = false;
    std::vector<GradientFacts> gradients;
    UpdateExtras extras;
    std::function<void()> on_commit;
    int dropped = 0;
    std::map<int, std::int64_t> running;  ///< by worker at an iteration: samples
    std::vector<UpdateRecord> updates;
    std::vector<IterationRecord> timings;
    std::vector<PushOutcome> outcomes;
    std::vector<std::string> plans;

private:
    std::int64_t samples_;
    std::int64_t applied_ = 0;
    LeaseDesk leases_;
    UpdateEngine engine_;
};

}  // namespace cohort::test
