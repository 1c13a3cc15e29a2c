#pragma once

#include <memory>

#include "cohort/train/trainer.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A worker's whole life, as protocol.hpp numbers it: parameters from servers, a gradient back; or
/// rounds of a ring. To be made before anybody can send to this rank's worker port, run on the
/// thread that computes, and to live until run() has returned: parameters in flight are written
/// into its memory.
///
/// With servers, each complete set of parameters permits one mini-batch, on the newest set
/// (StartPermit says what a lease that is taken back changes); sets that carry an evaluation order
/// are each evaluated, in order. With rings, grants are carried out in the order in which they were
/// received, those before a kStop too.
class WorkerLoop {
public:
    /// Makes device, replica and loaders. @param comm, job, environment outlive the loop
    /// @param worker index  @param rounds makes the exchanges of rings and groups; may be empty
    /// where there are none
    /// Errors: UsageError, DeviceError, ShapeError.
    WorkerLoop(CommContext comm, JobContext& job, const TrainEnvironment& environment, int worker,
               AllReduceFactory rounds = {});
    WorkerLoop(const WorkerLoop&) = delete;
    WorkerLoop& operator=(const WorkerLoop&) = delete;
    ~WorkerLoop() = default;

    /// Works until kStop, then sends its final report. Errors: whatever input, device and files
    /// throw, with what was being done; PeerError for orders that make no sense.
    void run();

    /// kBegin has come: the run has begun for this worker. From any thread.
    [[nodiscard]] bool begun() const noexcept { return context_.coordinator().begun(); }
    /// For the start-up header.
    [[nodiscard]] const Device& device() const noexcept { return context_.compute().device(); }

private:
    WorkerContext context_;
    std::unique_ptr<WorkerExecutor> executor_;
};

}  // namespace cohort
