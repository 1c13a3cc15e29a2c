#include "train/worker/worker_compute.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/learning_options.hpp"
#include "core/log.hpp"
#include "core/profiler_range.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/optim/vector_math.hpp"
#include "layers/product_speed.hpp"
#include "train/run/job_context.hpp"
#include "train/run/sleep_compute.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

/// A GPU's computing thread only waits, and so does one that sleeps in place of the network or
/// hands its work to the program: its own CPU time says nothing there.
std::shared_ptr<const Clock> busy_clock(const Device& device, const JobContext& job,
                                        const std::shared_ptr<const Clock>& wall) {
    const bool computes = device.kind() == DeviceKind::kCpu && computes_network(job.options) &&
                          job.network == nullptr;
    return computes ? std::make_shared<ThreadCpuClock>() : wall;
}

/// Sleeps that end when the run stops, which is looked at this often.
SleepCompute::Sleep sleep_until_stop(std::shared_ptr<const Clock> clock,
                                     CoordinatorLink& coordinator) {
    return [clock = std::move(clock), &coordinator,
            looked = Clock::Seconds(0)](Clock::Seconds time) mutable {
        constexpr Clock::Seconds kLook{50e-3};
        Clock::Seconds now = clock->now();
        for (const Clock::Seconds end = now + time; now < end; now = clock->now()) {
            if (now - looked >= kLook) {
                looked = now;
                if (coordinator.stopping()) {
                    return;
                }
            }
            std::this_thread::sleep_for(std::min(end - now, kLook));
        }
    };
}

std::unique_ptr<TrainableModel> make_replica(const JobContext& job, Device& device,
                                             const TrainEnvironment& environment,
                                             CoordinatorLink& coordinator) {
    if (const auto sleep_s = parse_compute(job.options.compute).sleep_s) {
        return std::make_unique<SleepCompute>(
            job.graph, device, *sleep_s / static_cast<double>(job.options.batch), environment.clock,
            sleep_until_stop(environment.clock, coordinator));
    }
    if (job.network != nullptr) {
        return job.network->make(device);
    }
    return std::make_unique<Replica>(
        job.graph, device,
        replica_options(device, job.options.precision, job.options.deterministic,
                        environment.tuning_file));
}

}  // namespace

WorkerCompute::WorkerCompute(const JobContext& job, const CommContext& comm,
                             const TrainEnvironment& environment, int worker,
                             CoordinatorLink& coordinator)
    : job_(job),
      comm_(comm),
      coordinator_(coordinator),
      device_(make_device(
          device_of_this_rank(job.options.device, comm.map, comm.map.rank_of_worker(worker)),
          job.options.threads > 0 ? job.options.threads : environment.cores)),
      replica_(make_replica(job, *device_, environment, coordinator)),
      injector_(parse_injections(job.options.inject),
                comm.map.first_rank(comm.map.rank_of_worker(worker)), job.options.seed,
                environment.clock, busy_clock(*device_, job, environment.clock)) {
    auto* const layers = dynamic_cast<Replica*>(replica_.get());
    if (device_->kind() != DeviceKind::kCpu) {
        worker_device_.emplace(*replica_);
    } else if (layers != nullptr && comm.map.place_in_role(comm.map.rank_of_worker(worker)) == 0) {
        slow_layers_.emplace(*layers, cpu_team(*device_).size(), product_flops_per_second);
    }
    injector_.set_stop([&coordinator] { return coordinator.stopping(); });
    const ComputeChoice compute = parse_compute(job.options.compute);
    if (compute.recording) {
        injector_.replay({find_recording(*compute.recording, kRecordedOption), job.options.seed},
                         worker);
    }
}

bool WorkerCompute::takes_stored() const {
    return worker_device_ && computes_network(job_.options) && job_.network == nullptr;
}

AllReduceScope WorkerCompute::on_this_device(AllReduceScope scope) {
    if (worker_device_) {
        scope.device = device_.get();
        scope.stream = &replica_->stream();
    }
    return scope;
}

std::optional<BatchResult> WorkerCompute::train_step(const BatchView& batch,
                                                     StepObserver& observer) {
    const ProfilerRange range("train_step");
    // A part of a batch says nothing about the batch of the next step.
    const std::function<void()> nothing;
    AnnouncedRanges announced(observer, batch.serial != 0 ? begun_ : nothing);
    injector_.begin_samples(batch.size);
    try {
        if (slow_layers_) {
            slow_layers_->begin();
        }
        auto result = replica_->train_step(batch, job_.options.seed, announced);
        stepped_ = true;
        if (slow_layers_) {
            if (const std::string slow = slow_layers_->end(result ? batch.size : 0);
                !slow.empty()) {
                log_warn("{}; see docs/processors.md", slow);
            }
        }
        return result;
    } catch (const OutOfMemory& error) {
        if (stepped_ && may_leave()) {
            throw;
        }
        // Sums and pushes of all workers proceed as they would, with what happens to be in the
        // gradient, so nobody waits for this worker; its lease is taken back as void.
        coordinator_.tell(MessageKind::kStopRequested,
                          StopRequest{.rank = comm_.messenger.rank(), .failure = error.what()});
        announced.announce_rest(replica_->graph().parameters().total());
        return BatchResult{.loss_sum = std::numeric_limits<double>::quiet_NaN(),
                           .samples = batch.size};
    }
}

/// The coordinator's rank cannot, nor can the last worker.
bool WorkerCompute::may_leave() const {
    return comm_.membership != nullptr &&
           comm_.messenger.rank() != CoordinatorLink::address().rank &&
           job_.options.max_lost != 0 && comm_.map.workers() > 1;
}

std::optional<double> WorkerCompute::device_seconds() const {
    return injector_.idle() ? replica_->step_seconds() : std::nullopt;
}

void WorkerCompute::copy(std::span<float> to, std::span<const float> from) {
    check_invariant(to.size() == from.size(), "a worker copies between buffers of one size");
    replica_->stream().copy(to.data(), from.data(), from.size_bytes());
    replica_->stream().synchronize();
}

void WorkerCompute::clip(std::span<float> gradient, double most, bool with_replica) {
    if (with_replica && worker_device_) {
        worker_device_->math->add_squares(gradient);
        const double factor = clip_factor(most, std::sqrt(worker_device_->math->take_squares()));
        if (factor < 1) {
            worker_device_->math->scale_into(gradient, gradient, static_cast<float>(factor));
        }
    } else if (const double factor = clip_factor(most, norm(gradient)); factor < 1) {
        scale_into(gradient, gradient, static_cast<float>(factor));
    }
}

void WorkerCompute::fill_zero(const AllReduce& exchange, std::span<float> buffer) {
    if (exchange.on_device()) {
        replica_->stream().fill_zero(buffer.data(), buffer.size_bytes());
    } else {
        std::fill(buffer.begin(), buffer.end(), 0.0F);
    }
}

}  // namespace cohort
