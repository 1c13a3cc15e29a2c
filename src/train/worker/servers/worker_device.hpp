#pragma once

#include <memory>
#include <span>

#include "cohort/model/replica.hpp"
#include "optim/device_math.hpp"
#include "train/faults/injection.hpp"
#include "train/server/gradient_copies.hpp"

namespace cohort {

/// What a worker has besides its replica when that lies in a device's memory.
struct WorkerDevice {
    /// @param replica outlives it. Errors: DeviceError.
    explicit WorkerDevice(Replica& replica)
        : math(make_device_math(replica.device(), replica.stream())),
          copies(replica.device(), replica.stream(), replica.graph().parameters().total(),
                 replica.graph().state().total()),
          replica_(replica) {}

    /// Queues a copy of host memory, which stays as it is until the stream has done it, to device
    /// memory that is valid in the stream's order until the next call: at most a round's floats,
    /// parameters and batch statistics. Errors: DeviceError.
    [[nodiscard]] std::span<const float> upload(std::span<const float> from);

    std::unique_ptr<DeviceMath> math;  ///< on the replica's stream
    GradientCopies copies;
    bool summing = false;  ///< `math` holds squares of a step that have not been taken

private:
    Replica& replica_;
    Buffer uploaded_;
};

/// What a training step is observed with; all of it outlives the observer.
struct StepParts {
    Replica& replica;
    Injector& injector;
    WorkerDevice* device = nullptr;  ///< null: the replica lies in host memory
};

}  // namespace cohort
