#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "cohort/model/slow_layers.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/coordinator_link.hpp"
#include "train/worker/servers/worker_device.hpp"

namespace cohort {

/// What computes a worker's mini-batches: its device and, on it, the network, the program's own one
/// or `--compute` in its place, with the slowness that is injected.
class WorkerCompute {
public:
    /// What is given outlives this. Errors: UsageError, DeviceError, ShapeError.
    WorkerCompute(const JobContext& job, const CommContext& comm,
                  const TrainEnvironment& environment, int worker, CoordinatorLink& coordinator);

    [[nodiscard]] Device& device() noexcept { return *device_; }
    [[nodiscard]] const Device& device() const noexcept { return *device_; }
    [[nodiscard]] TrainableModel& replica() noexcept { return *replica_; }
    [[nodiscard]] Injector& injector() noexcept { return injector_; }
    /// Of a replica that does not lie in host memory.
    [[nodiscard]] WorkerDevice& worker_device() { return worker_device_.value(); }
    /// The network takes samples as they are stored.
    [[nodiscard]] bool takes_stored() const;
    /// Called when the work of a whole mini-batch has begun on a device that works by itself.
    void set_begun(std::function<void()> begun) { begun_ = std::move(begun); }
    /// What training steps are observed with.
    [[nodiscard]] StepContext step_context() noexcept {
        return {*replica_, injector_, worker_device_ ? &*worker_device_ : nullptr};
    }
    /// The scope of an exchange whose buffer may lie where the replica does.
    [[nodiscard]] AllReduceScope on_this_device(AllReduceScope scope);

    /// A mini-batch on the replica's parameters. Nothing when the observer interrupted it. One that
    /// does not fit the device's memory gives some gradient and a loss that is not finite, which
    /// voids it, and the coordinator is asked to end the run; OutOfMemory when this worker has done
    /// others and may leave the job instead.
    [[nodiscard]] std::optional<BatchResult> train_step(const BatchView& batch,
                                                        StepObserver& observer);
    /// Local step time of the last train_step, which took this thread `host_s`: what its device
    /// says, where it keeps time. Injected slowness is in the thread's time alone.
    [[nodiscard]] double own_seconds(double host_s) const {
        return device_seconds().value_or(host_s);
    }
    /// The same; nothing where the thread's time counts.
    [[nodiscard]] std::optional<double> device_seconds() const;

    /// Host memory to device memory or back, at once.
    void copy(std::span<float> to, std::span<const float> from);
    /// Scales a gradient to this norm when its own is larger. @param with_replica  it lies where
    /// the replica does, else in host memory
    void clip(std::span<float> gradient, double most, bool with_replica);
    /// The buffer of `exchange` becomes zero, wherever it lies.
    void fill_zero(const AllReduce& exchange, std::span<float> buffer);

private:
    [[nodiscard]] bool may_leave() const;

    const JobContext& job_;
    const CommContext& comm_;
    CoordinatorLink& coordinator_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<TrainableModel> replica_;
    std::optional<WorkerDevice> worker_device_;  ///< unless the replica lies in host memory
    Injector injector_;
    std::function<void()> begun_;
    std::optional<SlowLayerWatch> slow_layers_;  ///< of the first worker of a host, on a CPU
    bool stepped_ = false;                       ///< a mini-batch has fitted the memory
};

}  // namespace cohort
