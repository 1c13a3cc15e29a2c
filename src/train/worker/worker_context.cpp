#include "train/worker/worker_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/system/process_usage.hpp"
#include "train/coordinator/evaluation.hpp"
#include "train/run/train_parts.hpp"
#include "train/worker/servers/announced.hpp"

namespace cohort {
namespace {

LoaderOptions loader_options(const JobParts& job, const AugmentOptions& augment,
                             const OrderOptions& order, Device& device) {
    LoaderOptions loader;
    loader.augment = augment;
    loader.threads = job.options.loader_threads;
    loader.order = order;
    loader.allocator = host_allocator(device);
    return loader;
}

/// A GPU's computing thread only waits, and so does one that sleeps in place of the network: its
/// own CPU time says nothing there.
std::shared_ptr<const Clock> busy_clock(const Device& device, const TrainOptions& options,
                                        const std::shared_ptr<const Clock>& wall) {
    const bool computes = device.kind() == DeviceKind::kCpu && computes_network(options);
    return computes ? std::make_shared<ThreadCpuClock>() : wall;
}

}  // namespace

WorkerContext::WorkerContext(Links links, JobParts& job, const TrainEnvironment& environment,
                             int worker)
    : links_(links),
      job_(job),
      environment_(environment),
      worker_(worker),
      device_(make_device(
          device_of_this_rank(job.options.device, links.map, links.map.rank_of_worker(worker)),
          job.options.threads > 0 ? job.options.threads : environment.cores)),
      replica_(job.graph, *device_,
               replica_options(*device_, parse_precision(job.options.precision),
                               job.options.deterministic, environment.tuning_file)),
      train_loader_(job.train_set, loader_options(job, job.augment, job.order, *device_)),
      test_loader_(job.test_set, loader_options(job, {}, {.shuffle = false}, *device_)),
      slices_(job.train_set->info(), job.order),
      injector_(parse_injections(job.options.inject), links.map.rank_of_worker(worker),
                job.options.seed, environment.clock,
                busy_clock(*device_, job.options, environment.clock)) {
    if (device_->kind() != DeviceKind::kCpu) {
        worker_device_.emplace(replica_);
    }
    const ComputeChoice compute = parse_compute(job.options.compute);
    if (compute.sleep_s) {
        sleep_.emplace(replica_, *compute.sleep_s / static_cast<double>(job.options.batch),
                       environment.clock);
    }
    if (compute.recording) {
        injector_.replay({find_recording(*compute.recording, kRecordedOption), job.options.seed},
                         worker_);
    }
}

void WorkerContext::take_orders() {
    if (!stop_told_ && environment_.stop_requested()) {
        stop_told_ = true;
        tell_coordinator(MessageKind::kStopRequested, StopRequest{.rank = links_.messenger.rank()});
    }
    Mailbox& mailbox = links_.messenger.mailbox(Port::kWorker);
    while (const auto message = mailbox.receive(Clock::Seconds(0))) {
        handle(*message);
    }
}

void WorkerContext::await(std::string_view name, std::uint64_t sequence,
                          const std::function<bool()>& ready, Missing missing, WaitLimit limit,
                          Clock::Seconds look) {
    take_orders();
    if (ready() || stopped_) {
        return;
    }
    const auto wait = links_.operations.begin(name, sequence, std::move(missing), limit);
    while (!ready() && !stopped_) {
        if (const auto message = links_.messenger.mailbox(Port::kWorker).receive(look)) {
            handle(*message);
        }
        take_orders();
    }
}

WorkerContext::Missing WorkerContext::from_coordinator() {
    return [] { return std::vector<int>{coordinator().rank}; };
}

void WorkerContext::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kLease: submit(decode<LeaseOrder>(message.body)); break;
        case MessageKind::kStop: stopped_ = true; break;
        case MessageKind::kBegin:
            begun_ = true;
            injector_.start();
            handler_(message);
            break;
        default: handler_(message); break;
    }
}

void WorkerContext::submit(const LeaseOrder& order) {
    Lease lease{.id = order.lease, .epoch = order.epoch, .position = order.position, .samples = {}};
    lease.samples =
        slices_.samples({.epoch = order.epoch, .position = order.position, .count = order.count});
    train_loader_.submit(std::move(lease));
    leases_.push_back(order);
}

std::optional<LoadedBatch> WorkerContext::next_batch(bool heed_stop) {
    return next_batch([this, heed_stop] { return heed_stop && stopped_; });
}

std::optional<LoadedBatch> WorkerContext::next_batch(const std::function<bool()>& give_up) {
    const auto wait = links_.operations.begin("batch", ++batches_);
    for (;;) {
        std::optional<LoadedBatch> batch = train_loader_.next([&] {
            take_orders();
            return give_up();
        });
        if (!batch) {
            return batch;
        }
        while (!leases_.empty() && leases_.front().lease != batch->lease().id) {
            leases_.pop_front();  // taken back from the loader meanwhile
        }
        if (!leases_.empty()) {
            lease_order_ = std::move(leases_.front());
            leases_.pop_front();
            if (!lease_order_.validation) {  // whose samples are from anywhere
                injector_.replay_at(moment_of(lease_order_));
            }
            const std::uint64_t lease = batch->lease().id;
            if (!lease_order_.validation) {  // leases ascend: nobody asks for those before
                revoked_.erase(revoked_.begin(), revoked_.lower_bound(lease));
            }
            if (!revoked(lease)) {
                return batch;
            }
        }
    }
}

/// Reference batches that the job was dealt before: the same for all of a round, whatever came
/// before it, and a run that is resumed goes on where it was. Under plans that do not wait it is as
/// old as the lease, up to four of the worker's mini-batches.
std::uint64_t WorkerContext::moment_of(const LeaseOrder& order) const {
    const std::int64_t samples = order.epoch * job_.train_set->info().samples + order.position;
    return static_cast<std::uint64_t>(samples / job_.reference_batch);
}

void WorkerContext::revoke(const RevokeOrder& order) {
    revoked_up_to_ = std::max(revoked_up_to_, order.up_to);
    revoked_.insert(order.leases.begin(), order.leases.end());
    revoked_.erase(revoked_.begin(), revoked_.upper_bound(revoked_up_to_));
    const bool all = std::all_of(leases_.begin(), leases_.end(),
                                 [this](const LeaseOrder& lease) { return revoked(lease.lease); });
    if (all) {
        drop_leases();  // none of them needs to be loaded
    }
}

void WorkerContext::drop_leases() {
    (void)train_loader_.discard_submitted();
    leases_.clear();
}

bool WorkerContext::revoked(std::uint64_t lease) const {
    return lease <= revoked_up_to_ || revoked_.contains(lease);
}

std::optional<BatchResult> WorkerContext::train_step(const BatchView& batch,
                                                     StepObserver& observer) {
    Announced announced(observer);
    injector_.begin_samples(batch.size);
    try {
        auto result = sleep_ ? sleep_->train_step(batch, announced)
                             : replica_.train_step(batch, job_.options.seed, announced);
        stepped_ = true;
        return result;
    } catch (const OutOfMemory& error) {
        if (stepped_ && may_leave()) {
            throw;
        }
        fail_run(error);
        announced.announce_rest(replica_.graph().parameters().total());
        return BatchResult{.loss_sum = std::numeric_limits<double>::quiet_NaN(),
                           .samples = batch.size};
    }
}

/// The coordinator's rank cannot, nor can the last worker.
bool WorkerContext::may_leave() const {
    return links_.membership != nullptr && links_.messenger.rank() != coordinator().rank &&
           job_.options.max_lost != 0 && links_.map.workers() > 1;
}

/// Everybody's sums and pushes go on as they would, with what happens to be in the gradient, so
/// nobody waits for this worker; what is void comes back as a lease.
void WorkerContext::fail_run(const OutOfMemory& reason) {
    tell_coordinator(MessageKind::kStopRequested,
                     StopRequest{.rank = links_.messenger.rank(), .failure = reason.what()});
}

std::optional<double> WorkerContext::device_seconds() const {
    return sleep_ || !injector_.idle() ? std::nullopt : replica_.step_seconds();
}

double WorkerContext::own_seconds(double host_s) const {
    return device_seconds().value_or(host_s);
}

AllReduceScope WorkerContext::on_this_device(AllReduceScope scope) {
    if (worker_device_) {
        scope.device = device_.get();
        scope.stream = &replica_.stream();
    }
    return scope;
}

void WorkerContext::fill_zero(const AllReduce& exchange, std::span<float> buffer) {
    if (exchange.on_device()) {
        replica_.stream().fill_zero(buffer.data(), buffer.size_bytes());
    } else {
        std::fill(buffer.begin(), buffer.end(), 0.0F);
    }
}

bool WorkerContext::stopping() {
    take_orders();
    return stopped_ || stop_told_;
}

void WorkerContext::evaluate(const EvaluationOrder& order) {
    const std::int64_t samples = job_.test_set->info().samples;
    const std::int64_t begin = samples * order.part / order.parts;
    const std::int64_t end = samples * (order.part + 1) / order.parts;
    const Clock::Seconds start = clock().now();
    Clock::Seconds said = start;
    const std::uint32_t incarnation = incarnation_;
    auto wait = working("batches of an evaluation", order.id);
    const auto progress = [&](std::int64_t done) {
        wait.renew();
        if (const Clock::Seconds now = clock().now(); now - said >= kProgressEvery) {
            said = now;
            tell_coordinator(
                MessageKind::kEvaluating,
                EvaluationProgress{
                    .id = order.id, .part = order.part, .done = done, .samples = end - begin});
        }
    };
    const std::optional<BatchResult> sums = evaluate_range(
        replica_, test_loader_, begin, end, job_.options.batch,
        [&] { return stopping() || incarnation_ != incarnation; }, progress);
    if (sums) {
        tell_coordinator(MessageKind::kEvaluated,
                         EvaluatedPart{.id = order.id,
                                       .part = order.part,
                                       .loss_sum = sums->loss_sum,
                                       .correct = sums->correct,
                                       .samples = sums->samples,
                                       .seconds = (clock().now() - start).count()});
    }
}

void WorkerContext::copy(std::span<float> to, std::span<const float> from) {
    check_invariant(to.size() == from.size(), "a worker copies between buffers of one size");
    replica_.stream().copy(to.data(), from.data(), from.size_bytes());
    replica_.stream().synchronize();
}

void WorkerContext::say_farewell() {
    const TrafficCounters traffic = links_.messenger.counters();
    tell_coordinator(MessageKind::kFarewell, Farewell{.cpu_s = process_cpu_seconds(),
                                                      .peak_bytes = process_peak_bytes(),
                                                      .arena_bytes = replica_.arena_bytes(),
                                                      .staging_bytes = 0,
                                                      .bytes_sent = traffic.bytes_sent,
                                                      .bytes_received = traffic.bytes_received,
                                                      .comm_cpu_s = traffic.cpu_seconds});
}

void refuse_order(const Message& message) {
    fail<PeerError>({.where = "worker",
                     .what = "got an order that is not for workers of this run",
                     .got = fmt::format("kind {} from rank {}", message.kind, message.from.rank),
                     .hint = "the same program and options on all ranks"});
}

}  // namespace cohort
