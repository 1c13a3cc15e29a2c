#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "cohort/model/trainable_model.hpp"
#include "cohort/tensor/device.hpp"
#include "layers/optim/device_math.hpp"
#include "train/faults/injection.hpp"

namespace cohort {

/// Brings the gradient of a step to host memory while backward goes on, on a stream of its own:
/// ranges in the order in which they were announced. One thread.
class GradientCopies {
public:
    /// A part of the gradient, in floats.
    struct Range {
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };
    /// Larger ranges come in pieces of this size, from the end to the beginning: the host works on
    /// one while the next is in flight.
    static constexpr std::int64_t kPiece = std::int64_t{1} << 20;

    /// Memory is allocated by the first begin(). @param from  in whose order ranges become final;
    /// with `device` it outlives this  @param floats of the gradient  @param state of the batch
    /// statistics
    GradientCopies(Device& device, Stream& from, std::int64_t floats, std::int64_t state);
    GradientCopies(const GradientCopies&) = delete;
    GradientCopies& operator=(const GradientCopies&) = delete;
    ~GradientCopies();  ///< waits for copies that are in flight

    /// A step begins. What is left of one that was given up is not handed out any more.
    /// Errors: DeviceError.
    void begin();
    /// Queues the batch statistics; before the first add() of the step.
    void add_statistics(std::span<const float> batch_state);
    /// Queues a range that is final in the stream's order. @param gradients  all of it, in device
    /// memory, which nothing changes before the range has come out of next()
    void add(Range range, std::span<const float> gradients);
    /// The oldest range that has been copied; nothing when none is left, or, unless `wait`, when
    /// none has arrived. The statistics arrive before the first range. Errors: DeviceError.
    [[nodiscard]] std::optional<Range> next(bool wait);

    /// Host memory: valid where ranges have come out of next(), until the next begin().
    [[nodiscard]] std::span<const float> gradients() const noexcept;
    [[nodiscard]] std::span<const float> statistics() const noexcept;

private:
    struct Copy {
        Range range;
        std::unique_ptr<Event> done;
    };

    Device& device_;
    Stream& from_;
    std::size_t floats_;
    std::size_t state_;
    Buffer host_;  ///< the gradient, then the statistics
    std::unique_ptr<Stream> stream_;
    std::deque<Copy> copies_;  ///< not handed out, oldest first
};

/// What a worker has besides its replica when that lies in a device's memory.
struct WorkerDevice {
    /// @param replica outlives it. Errors: DeviceError.
    explicit WorkerDevice(TrainableModel& replica)
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
    TrainableModel& replica_;
    Buffer uploaded_;
};

/// What a training step is observed with; all of it outlives the observer.
struct StepContext {
    TrainableModel& replica;
    Injector& injector;
    WorkerDevice* device = nullptr;  ///< null: the replica lies in host memory
};

}  // namespace cohort
