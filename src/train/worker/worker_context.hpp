#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "comm/allreduce/all_reduce.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/coordinator_link.hpp"
#include "train/worker/iteration_meter.hpp"
#include "train/worker/leased_batches.hpp"
#include "train/worker/worker_compute.hpp"

namespace cohort {

/// What both executors of a worker work with. Only the computing thread uses it, unless something
/// else is said.
class WorkerContext {
public:
    static constexpr Clock::Seconds kProgressEvery{1};

    /// Errors: UsageError, DeviceError, ShapeError.
    WorkerContext(CommContext comm, JobContext& job, const TrainEnvironment& environment,
                  int worker);
    WorkerContext(const WorkerContext&) = delete;
    WorkerContext& operator=(const WorkerContext&) = delete;
    ~WorkerContext() = default;

    [[nodiscard]] const CommContext& comm() const noexcept { return comm_; }
    [[nodiscard]] JobContext& job() noexcept { return job_; }
    [[nodiscard]] const Clock& clock() const noexcept { return *environment_.clock; }
    [[nodiscard]] int worker() const noexcept { return worker_; }
    [[nodiscard]] IterationMeter& meter() noexcept { return meter_; }
    [[nodiscard]] CoordinatorLink& coordinator() noexcept { return coordinator_; }
    [[nodiscard]] const CoordinatorLink& coordinator() const noexcept { return coordinator_; }
    [[nodiscard]] WorkerCompute& compute() noexcept { return compute_; }
    [[nodiscard]] const WorkerCompute& compute() const noexcept { return compute_; }
    [[nodiscard]] TrainableModel& replica() noexcept { return compute_.replica(); }
    [[nodiscard]] LeasedBatches& batches() noexcept { return batches_; }

    /// Who gets the orders that are not the context's own (leases, kStop). kBegin goes to both.
    void set_orders(CoordinatorLink::OrderHandler handler);
    /// Counts how often this worker was lost; goes into its pushes.
    [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }
    void begin_incarnation(std::uint32_t incarnation) noexcept { incarnation_ = incarnation; }

    /// Evaluates a part of the test group with the parameters as they are and reports it. Gives up
    /// silently between batches when kStop comes, this rank is asked to stop or begins a new
    /// incarnation. Reports progress (kEvaluating) at most once in kProgressEvery.
    void evaluate(const EvaluationOrder& order);
    /// What this rank has used, for the coordinator's summary.
    void send_final_report();

private:
    CommContext comm_;
    JobContext& job_;
    const TrainEnvironment& environment_;
    int worker_;
    CoordinatorLink coordinator_;
    WorkerCompute compute_;
    LeasedBatches batches_;
    Loader test_loader_;
    IterationMeter meter_;
    std::uint32_t incarnation_ = 0;
};

/// What a mini-batch came to, in a report on it. @param squares  of the gradient
template <class Report>
void note_result(Report& report, const BatchResult& result, double squares) {
    report.samples = result.samples;
    report.loss_sum = result.loss_sum;
    report.correct = result.correct;
    report.finite = std::isfinite(result.loss_sum) && std::isfinite(squares);
    report.gradient_norm = std::sqrt(squares);
}

/// One way of exchanging gradients, from a worker's side.
class WorkerExecutor {
public:
    WorkerExecutor() = default;
    WorkerExecutor(const WorkerExecutor&) = delete;
    WorkerExecutor& operator=(const WorkerExecutor&) = delete;
    virtual ~WorkerExecutor() = default;
    /// An order was received, see WorkerContext::set_orders.
    virtual void order(const Message& message) = 0;
    /// Works until kStop.
    virtual void run() = 0;
    /// Of the parameters in use.
    [[nodiscard]] virtual std::int64_t version() const noexcept = 0;
};

/// A worker of parameter servers. `context` outlives it.
/// @param rounds makes the exchanges of groups; may be empty when there are none
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context,
                                                                    AllReduceFactory rounds);

/// A member of a ring. `context` outlives it. @param rounds may be empty when the ring has one
/// member: its gradient is the sum, nothing is exchanged or copied.
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_ring_executor(WorkerContext& context,
                                                                 AllReduceFactory rounds);

}  // namespace cohort
