#include "train/worker/ring/ring_rider.hpp"

#include <algorithm>
#include <utility>

#include "train/protocol/protocol_ring.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/local_steps.hpp"

namespace cohort {

PushRoute RingRider::route() const {
    return {context_.comm(), layout_, {{parent(), Port::kWorker}}, out_.wire};
}

PushWriter RingRider::writer(const Buffer& buffer, const PushId& push) {
    ErrorFeedback::Push* const rest =
        out_.wire == Wire::kBf16 ? &out_.feedback.begin(push.sequence, Work::kGradient) : nullptr;
    return PushWriter::into(out_.wire, layout_, buffer, rest);
}

PushReport RingRider::gradient(const LoadedBatch& batch, const PushId& push) {
    const PushRoute to_parent = route();
    const std::shared_ptr<Buffer> buffer = out_.buffers.free_or_new();
    const PushForm form = to_parent.whole();
    PushObserver observer(context_.compute().step_context(), to_parent, form, buffer,
                          writer(*buffer, push), push);
    const auto result = context_.compute().train_step(view_of(batch), observer);
    observer.finish();
    out_.buffers.in_use(buffer, observer.transfers());
    PushReport report;
    note_result(report.ticket, *result, observer.sum_of_squares());
    report.times.leaving_s = observer.leaving_s();
    return report;
}

/// Nothing leaves before the end of the second half.
PushReport RingRider::gradient_of_halves(const LoadedBatch& batch, const PushId& push) {
    const PushRoute to_parent = route();
    const std::shared_ptr<Buffer> buffer = out_.buffers.free_or_new();
    std::vector<float> gradient(static_cast<std::size_t>(layout_.floats()));
    const auto step = train_split_batch(context_, batch, gradient, {});
    writer(*buffer, push).put(0, gradient);
    const PushForm form = to_parent.whole();
    Transfers transfers = to_parent.start(push, buffer, form);
    PushRoute::release(transfers, form);
    out_.buffers.in_use(buffer, std::move(transfers));
    PushReport report;
    note_result(report.ticket, step->result, step->mean_squares);
    report.halves = true;
    report.first_squares = step->squares[0];
    report.second_squares = step->squares[1];
    return report;
}

bool RingRider::train() {
    const Clock::Seconds start = context_.clock().now();
    const auto batch = context_.batches().next([this] { return context_.coordinator().stopped(); });
    if (!batch) {
        return false;
    }
    const Clock::Seconds loaded = context_.clock().now();
    const PushId push{
        .worker = context_.worker(), .incarnation = context_.incarnation(), .sequence = ++begun_};
    PushReport report = context_.batches().order().halves ? gradient_of_halves(*batch, push)
                                                          : gradient(*batch, push);
    times_.leaving_s = report.times.leaving_s;
    report.ticket.id = push;
    report.ticket.lease = batch->lease().id;
    report.ticket.version = model_.version();
    report.times = std::exchange(times_, {});
    report.times.input_s = (loaded - start).count();
    report.times.compute_s =
        context_.compute().own_seconds((context_.clock().now() - loaded).count());
    report.times.use = context_.meter().use();
    report.times.telemetry_s = context_.meter().take_cost_s();
    context_.coordinator().tell(MessageKind::kPushReport, report);
    told_ = context_.clock().now();
    return true;
}

void RingRider::follow(const RoleOrder& order, bool was_member) {
    if (order.role == RingRole::kMember) {
        out_.feedback.clear();  // what a member's rounding leaves is kept where its ring sums
    }
    if (was_member && order.role != RingRole::kMember && !order.afresh) {
        start_permit_ = true;
        held_epoch_ = order.epoch;
    }
    parent_ = order.parent;
    if (order.afresh) {
        start_permit_ = start_permit_ && held_epoch_ >= order.epoch;  // else new ones are in flight
        parameters_epoch_ = order.epoch;
    }
}

void RingRider::restart() {
    begun_ = 0;
    out_.feedback.clear();
    told_.reset();
    start_permit_ = false;
}

int RingRider::parent() const {
    return context_.comm().map.rank_of_worker(parent_);
}

bool RingRider::ready() const {
    return start_permit_ ? context_.batches().waiting() > 0 : inbox_.has(permits_start());
}

void RingRider::step() {
    if (!start_permit_) {
        take_parameters();
    } else if (train()) {
        start_permit_ = false;
    }
}

/// The answer to the last push, or what a new parent sends in its place.
std::function<bool(const StateHeader&)> RingRider::permits_start() const {
    return [this](const StateHeader& header) {
        return !header.full && header.epoch >= parameters_epoch_ &&
               header.incarnation == context_.incarnation() && header.after == begun();
    };
}

void RingRider::take_last_parameters(std::uint64_t epoch) {
    take_parameters();
    parameters_epoch_ = epoch;
}

void RingRider::take_parameters() {
    inbox_.drop([this](const StateHeader& header) {
        return !header.full &&
               (header.incarnation != context_.incarnation() || header.after < begun());
    });
    if (const auto state = inbox_.take(permits_start())) {
        model_.take(*state);
        out_.feedback.decide(begun_, state->header.applied);
        held_epoch_ = state->header.epoch;
        start_permit_ = true;
        if (told_) {
            times_.exchange_s = (context_.clock().now() - *told_).count();
            times_.pull_s =
                std::min((SteadyClock().now() - state->announced).count(), times_.exchange_s);
        }
    }
}

}  // namespace cohort
