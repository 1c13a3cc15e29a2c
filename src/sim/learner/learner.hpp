#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/core/wire.hpp"
#include "cohort/data/order.hpp"
#include "cohort/model/source.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/sched/plan.hpp"
#include "sched/session/update_order.hpp"

namespace cohort {

class LearnerResources;

/// The numbers of a virtual run: parameters, optimizer, gradients. What is asked for is computed in
/// the background, on as many cores as it was given, and awaited where it is needed; results do not
/// depend on the number of cores. The event loop's thread calls it. The base learns nothing: losses
/// and norms are 0, accuracy is 0; a run without training needs only the time.
class Learner {
public:
    /// Parameters that workers compute on; copies share them.
    class Parameters;
    using Released = std::shared_ptr<const Parameters>;
    /// Of a computation that was started; 0: none.
    using WorkId = std::uint64_t;

    struct Job {
        int worker = 0;
        LeaseSlice slice;
        Released parameters;
        Work work = Work::kGradient;
        int steps = 1;  ///< kDelta: local steps that the slice is cut into
        double lr = 0;  ///< kDelta: of them
        /// kDelta: the optimizer's state of a worker's local steps stays from job to job of one
        /// generation.
        std::uint64_t generation = 0;
        bool halves = false;  ///< kGradient: computed as two halves, see GradientStatistics
    };
    /// What a push's ticket says of the computation.
    struct Outcome {
        double loss_sum = 0;  ///< nats
        double correct = 0;
        bool finite = true;
        double gradient_norm = 0;
        std::array<double, 2> half_squares{};  ///< |g|^2 of each half
    };
    struct Accuracy {
        std::optional<double> accuracy = 0;  ///< 0..1; none: a regression
        double loss = 0;                     ///< nats
        std::int64_t samples = 0;
    };

    Learner() = default;
    Learner(const Learner&) = delete;
    Learner& operator=(const Learner&) = delete;
    virtual ~Learner() = default;

    /// The current version's parameters, looked ahead by `lag` reference batches.
    /// @param delay_compensated  kept until the worker's next push: the plan compensates delays
    [[nodiscard]] virtual Released release(int /*worker*/, double /*lag*/, double /*lr*/,
                                           bool /*delay_compensated*/) {
        return {};
    }
    virtual WorkId start(const Job& /*job*/) { return ++last_; }
    /// Workers that average their gradients at every local step (kDelta, equal steps), each with a
    /// part of its own slice.
    /// @return one per job
    virtual std::vector<WorkId> start_group(std::span<const Job> jobs) {
        std::vector<WorkId> works(jobs.size());
        std::iota(works.begin(), works.end(), last_ + 1);
        last_ += works.size();
        return works;
    }
    /// Waits for it. To be asked when the push is complete, before its worker starts again.
    [[nodiscard]] virtual Outcome outcome(WorkId /*work*/) { return {}; }
    /// Its result is not wanted; nothing happens when it is over. A delta whose outcome was not
    /// asked for has been given up: its worker's local steps begin with a new optimizer.
    virtual void forget(WorkId /*work*/) {}
    /// The order of calls decides: update.version is the next one's parameters'.
    /// @param works  what the pushes of its terms were computed by, one per term: over then
    /// @return the squared norm of its mean gradient, if it is asked for
    virtual double apply(const UpdateOrder& /*update*/, std::span<const WorkId> /*works*/) {
        return 0;
    }

    /// Zeno++: this work's gradient is what others are compared with from now on; it is over then.
    virtual void set_reference(WorkId /*work*/) {}
    /// Product with the reference and the reference's norm; 0 and 0 without one.
    [[nodiscard]] virtual std::pair<double, double> compare(WorkId /*work*/) { return {}; }

    /// With the current parameters. @param most test samples, the first ones; 0: all
    [[nodiscard]] virtual Accuracy evaluate(std::int64_t /*most*/) { return {}; }
    /// The same with the mean of the parameters (LearnerOptions::average_samples > 0).
    [[nodiscard]] virtual Accuracy evaluate_average(std::int64_t /*most*/) { return {}; }
    /// Changes with any bit of parameters, state or optimizer state.
    [[nodiscard]] virtual std::uint64_t digest() { return 0; }
    /// Samples that gradients were computed on so far, wanted or not.
    [[nodiscard]] virtual std::int64_t samples_computed() const { return 0; }
    /// Core seconds in gradients, evaluations and updates so far.
    [[nodiscard]] virtual double engine_core_s() const { return 0; }
    /// Most bytes of parameters, gradients and deltas that were held at any time.
    [[nodiscard]] virtual std::uint64_t buffer_bytes_most() const { return 0; }

protected:
    WorkId last_ = 0;  ///< of the computation that was started last
};

/// What a Learner is made of.
struct LearnerOptions {
    std::string data;  ///< dataset file (HDF5)
    ModelSource network;
    OptimizerKind optimizer = OptimizerKind::kSgd;
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 0;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double clip_norm = 0;  ///< of local steps, and where there are no servers of mean gradients
    std::string augment = "none";
    double average_samples = 0;  ///< time constant of the parameters' mean; 0: there is none
    /// kBf16: pushes are rounded when they are applied, with what earlier ones of their worker
    /// left.
    Wire wire = Wire::kF32;
    bool pulls = true;  ///< workers get parameters as they travel, else they hold the f32 ones
    std::uint64_t seed = 1;
    int threads = 1;  ///< computations at a time, >= 1, each on one core
};

/// Trains the model for real, in this process. Errors: UsageError, FileError.
[[nodiscard]] std::unique_ptr<Learner> make_learner(const LearnerOptions& options);
/// The same with threads, samples and engines that other learners use as well; `options.threads`
/// does not count.
[[nodiscard]] std::unique_ptr<Learner> make_learner(const LearnerOptions& options,
                                                    LearnerResources& shared);

}  // namespace cohort
