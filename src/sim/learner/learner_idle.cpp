#include "sim/learner/learner.hpp"
#include "sim/learner/learner_store.hpp"

namespace cohort {
namespace {

/// Keeps time only.
class IdleLearner final : public Learner {
public:
    [[nodiscard]] Released release(int /*worker*/, double /*lag*/, double /*lr*/,
                                   bool /*delay_compensated*/) override {
        return parameters_;
    }
    WorkId start(const Job& /*job*/) override { return ++last_; }
    std::vector<WorkId> start_group(std::span<const Job> jobs) override {
        std::vector<WorkId> works(jobs.size());
        for (WorkId& work : works) {
            work = ++last_;
        }
        return works;
    }
    [[nodiscard]] Outcome outcome(WorkId /*work*/) override { return {}; }
    void forget(WorkId /*work*/) override {}
    GradientAnswer apply(const Update& /*update*/) override { return {}; }
    void set_reference(WorkId /*work*/) override {}
    [[nodiscard]] std::pair<double, double> compare(WorkId /*work*/) override { return {0, 0}; }
    [[nodiscard]] Accuracy evaluate(std::int64_t /*most*/) override { return {}; }
    [[nodiscard]] Accuracy evaluate_average(std::int64_t /*most*/) override { return {}; }
    [[nodiscard]] std::uint64_t digest() override { return 0; }
    [[nodiscard]] std::int64_t samples_computed() const override { return 0; }
    [[nodiscard]] double engine_core_s() const override { return 0; }
    [[nodiscard]] std::uint64_t buffer_bytes_most() const override { return 0; }

private:
    Released parameters_ = std::make_shared<const Parameters>();
    WorkId last_ = 0;
};

}  // namespace

std::unique_ptr<Learner> make_idle_learner() {
    return std::make_unique<IdleLearner>();
}

}  // namespace cohort
