#include "worker_ring_rides.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "protocol_ring.hpp"
#include "train_parts.hpp"
#include "worker_ring_observer.hpp"

namespace cohort {

/// Memory that nothing leaves from. One is enough but for transfers to a parent that was lost,
/// which may never end.
RingRides::Slot& RingRides::free_slot() {
    for (Slot& slot : slots_) {
        if (!slot.transfer || slot.transfer->done()) {
            return slot;
        }
    }
    slots_.push_back({std::make_shared<std::vector<float>>(floats_), nullptr});
    return slots_.back();
}

void RingRides::pulled(double seconds) {
    if (told_) {
        times_.exchange_s = (context_.clock().now() - *told_).count();
        times_.pull_s = std::min(seconds, times_.exchange_s);
    }
}

bool RingRides::run(int parent, std::int64_t version) {
    const Clock::Seconds start = context_.clock().now();
    const auto batch = context_.next_batch(true);
    if (!batch) {
        return false;
    }
    const Clock::Seconds loaded = context_.clock().now();
    const PushId id{
        .worker = context_.worker(), .incarnation = context_.incarnation(), .sequence = ++begun_};
    Slot& slot = free_slot();
    RiderObserver observer(context_.replica(), context_.injector(), context_.links(),
                           {parent, Port::kWorker}, {id}, slot.values);
    const auto result = context_.train_step(view_of(*batch), observer);
    observer.finish();
    slot.transfer = observer.transfer();
    const double squares = observer.sum_of_squares();
    WorkerTimes times = std::exchange(times_, {});
    times.input_s = (loaded - start).count();
    times.compute_s = (context_.clock().now() - loaded).count();
    times.leaving_s = observer.leaving_s();
    times.use = context_.meter().use();
    times.telemetry_s = context_.meter().take_cost_s();
    context_.tell_coordinator(
        MessageKind::kTicket,
        Ticket{.push = id,
               .lease = batch->lease().id,
               .version = version,
               .samples = batch->size(),
               .loss_sum = result->loss_sum,
               .correct = result->correct,
               .finite = std::isfinite(result->loss_sum) && std::isfinite(squares),
               .gradient_norm = std::sqrt(squares),
               .times = times});
    told_ = context_.clock().now();
    return true;
}

}  // namespace cohort
