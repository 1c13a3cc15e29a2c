#include "train/worker/worker_context.hpp"

#include <utility>

#include "core/system/process_usage.hpp"
#include "core/tensor/cuda.hpp"
#include "train/run/evaluation.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

LoaderOptions loader_options(const JobContext& job, const AugmentOptions& augment,
                             const OrderOptions& order, WorkerCompute& compute) {
    LoaderOptions loader;
    loader.augment = augment;
    loader.threads = job.options.loader_threads;
    loader.order = order;
    loader.allocator = host_allocator(compute.device());
    loader.stored = compute.takes_stored();
    return loader;
}

}  // namespace

WorkerContext::WorkerContext(CommContext comm, JobContext& job, const TrainEnvironment& environment,
                             int worker)
    : comm_(comm),
      job_(job),
      environment_(environment),
      worker_(worker),
      coordinator_(comm_, environment),
      compute_(job, comm_, environment, worker, coordinator_),
      batches_(job, loader_options(job, job.augment, job.order, compute_), comm_, coordinator_,
               compute_.injector()),
      test_loader_(job.test_set, loader_options(job, {}, {.shuffle = false}, compute_)),
      meter_(compute_.device().kind() == DeviceKind::kCuda ? cuda::gpu_facts(compute_.device()).bus
                                                           : "") {
    compute_.set_begun([this] {
        if (const LoadedBatch* next = batches_.peek()) {
            replica().prefetch(view_of(*next));
        }
    });
}

void WorkerContext::set_orders(CoordinatorLink::OrderHandler handler) {
    coordinator_.set_handler([this, handler = std::move(handler)](const Message& message) {
        const auto kind = static_cast<MessageKind>(message.kind);
        if (kind == MessageKind::kLease) {
            batches_.submit(decode<LeaseOrder>(message.body));
            return;
        }
        if (kind == MessageKind::kBegin) {
            compute_.injector().start();
        }
        handler(message);
    });
}

void WorkerContext::evaluate(const EvaluationOrder& order) {
    const std::int64_t samples = job_.test_set->info().samples;
    const std::int64_t begin = samples * order.part / order.parts;
    const std::int64_t end = samples * (order.part + 1) / order.parts;
    const Clock::Seconds start = clock().now();
    Clock::Seconds said = start;
    const std::uint32_t incarnation = incarnation_;
    auto wait = coordinator_.working("batches of an evaluation", order.id);
    const auto progress = [&](std::int64_t done) {
        wait.renew();
        if (const Clock::Seconds now = clock().now(); now - said >= kProgressEvery) {
            said = now;
            coordinator_.tell(
                MessageKind::kEvaluating,
                EvaluationProgress{
                    .id = order.id, .part = order.part, .done = done, .samples = end - begin});
        }
    };
    const std::optional<BatchResult> sums = evaluate_range(
        replica(), test_loader_, begin, end, job_.options.batch,
        [&] { return coordinator_.stopping() || incarnation_ != incarnation; }, progress);
    if (sums) {
        coordinator_.tell(MessageKind::kEvaluated,
                          EvaluatedPart{.id = order.id,
                                        .part = order.part,
                                        .loss_sum = sums->loss_sum,
                                        .correct = sums->correct,
                                        .samples = sums->samples,
                                        .seconds = (clock().now() - start).count()});
    }
}

void WorkerContext::send_final_report() {
    const TrafficCounters traffic = comm_.messenger.counters();
    coordinator_.tell(MessageKind::kFarewell, Farewell{.cpu_s = process_cpu_seconds(),
                                                       .peak_bytes = process_peak_bytes(),
                                                       .arena_bytes = replica().arena_bytes(),
                                                       .staging_bytes = 0,
                                                       .bytes_sent = traffic.bytes_sent,
                                                       .bytes_received = traffic.bytes_received,
                                                       .comm_cpu_s = traffic.cpu_seconds});
}

}  // namespace cohort
