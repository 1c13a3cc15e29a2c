#include "train/worker/servers/push_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/local_steps.hpp"

namespace cohort {
namespace {

constexpr std::size_t kKeep = 4;

}  // namespace

GroupExchanges::GroupExchanges(AllReduceFactory make, std::int64_t floats, AllReduceScope scope)
    : make_(std::move(make)), floats_(floats), scope_(std::move(scope)) {
}

std::list<GroupExchanges::Entry>::iterator GroupExchanges::find(const WorkOrder& work) {
    return std::find_if(entries_.begin(), entries_.end(), [&work](const Entry& entry) {
        return entry.generation == work.generation && entry.ranks == work.group;
    });
}

GroupExchanges::Turn GroupExchanges::turn(const WorkOrder& work) {
    check_invariant(static_cast<bool>(make_), "a worker of a group can make exchanges");
    auto found = find(work);
    if (found == entries_.end()) {
        try {
            entries_.push_front(
                {.generation = work.generation,
                 .ranks = work.group,
                 .exchange = make_({work.group.begin(), work.group.end()}, floats_, scope_),
                 .round = 1});
        } catch (const RingBroken&) {
            return {};
        }
        found = entries_.begin();
        while (entries_.size() > kKeep) {
            entries_.pop_back();
        }
    }
    entries_.splice(entries_.begin(), entries_, found);
    Entry& entry = entries_.front();
    const Turn turn{.exchange = entry.exchange.get(), .round = entry.round};
    entry.round += static_cast<std::uint64_t>(work.steps);
    return turn;
}

void GroupExchanges::broke(const WorkOrder& work) {
    if (const auto found = find(work); found != entries_.end()) {
        entries_.erase(found);
    }
}

PushStep::PushStep(WorkerContext& context, const ShardedLayout& layout, PushBuffers& places,
                   IterationTimes& times, AllReduceFactory rounds)
    : context_(context),
      layout_(layout),
      places_(places),
      times_(times),
      groups_(std::move(rounds), layout.floats(), context.compute().on_this_device({})) {
}

void PushStep::begin_incarnation() {
    if (local_) {
        local_->forget();
    }
}

void PushStep::run(const PushJob& job) {
    if (job.order.work.work == Work::kDelta) {
        delta(job);
    } else if (job.order.halves) {
        gradient_of_halves(job);
    } else if (job.place.slot >= 0) {
        gradient_in_slot(job);
    } else {
        gradient(job);
    }
}

void PushStep::gradient(const PushJob& job) {
    const BatchView batch = view_of(job.batch);
    const PushForm form = places_.form_of(batch);
    PushObserver observer(context_.compute().step_context(), places_.route(), form,
                          job.place.buffer, job.place.to, job.id, [&] { return give_up(job); });
    const auto result = context_.compute().train_step(batch, observer);
    if (result) {
        observer.finish();
        places_.leaves(job.place, observer.transfers());
        times_.computed(observer.leaving_s(), context_.compute().device_seconds());
        const double squares = observer.sum_of_squares();
        send(report_of(job, *result, std::isfinite(squares), squares));
        return;
    }
    times_.skip();
    PushRoute::release(observer.transfers(), form);
    places_.leaves(job.place, observer.transfers());
    if (observer.transfers().empty()) {
        places_.give_back(job.place, job.id);
    } else {
        send({.ticket = {.id = job.id,
                         .lease = job.order.lease,
                         .version = job.version,
                         .samples = job.batch.size()},
              .times = {},
              .given_up = true});
    }
}

/// The payload stays here; the node's head sums it with others when its update is decided.
void PushStep::gradient_in_slot(const PushJob& job) {
    LayoutObserver observer(context_.compute().step_context(), job.place.to,
                            [&] { return give_up(job); });
    const auto result = context_.compute().train_step(view_of(job.batch), observer);
    if (!result) {
        times_.skip();
        places_.give_back(job.place, job.id);
        return;
    }
    observer.finish();
    times_.computed(0, context_.compute().device_seconds());
    const double squares = observer.sum_of_squares();
    send(report_of(job, *result, std::isfinite(squares), squares));
}

/// Nothing leaves before the end of the second half.
void PushStep::gradient_of_halves(const PushJob& job) {
    delta_.resize(static_cast<std::size_t>(layout_.floats()));
    const auto step = train_split_batch(context_, job.batch, delta_, [&] { return give_up(job); });
    if (!step) {
        times_.skip();
        places_.give_back(job.place, job.id);
        return;
    }
    places_.put(job.place, job.id, delta_);
    times_.computed(0, step->device_s);
    PushReport report =
        report_of(job, step->result, std::isfinite(step->mean_squares), step->mean_squares);
    report.halves = true;
    report.first_squares = step->squares[0];
    report.second_squares = step->squares[1];
    send(report);
}

void PushStep::delta(const PushJob& job) {
    delta_.resize(static_cast<std::size_t>(layout_.floats()));
    if (!local_) {
        local_ = std::make_unique<LocalSteps>(context_, layout_.floats());
    }
    const WorkOrder& work = job.order.work;
    GroupExchanges::Turn turn;
    if (!work.group.empty()) {
        turn = groups_.turn(work);
        if (turn.exchange == nullptr) {
            places_.give_back(job.place, job.id);
            return;  // a member is lost: the lease will be taken back
        }
    }
    const auto result = local_->run(job.batch, work, turn.exchange, turn.round, delta_,
                                    [&] { return give_up(job); });
    if (!result) {
        times_.skip();
        groups_.broke(work);
        places_.give_back(job.place, job.id);
        return;
    }
    times_.computed_for(result->compute_s);
    places_.put(job.place, job.id, delta_);
    send(report_of(job, result->result, result->finite, result->squares));
}

/// Others of a group wait for this worker at every step: nothing but its own loss ends that early.
bool PushStep::give_up(const PushJob& job) {
    context_.coordinator().take_orders();
    if (context_.incarnation() != job.id.incarnation) {
        return true;
    }
    return job.order.work.group.empty() &&
           (context_.coordinator().stopped() || context_.batches().revoked(job.order.lease));
}

PushReport PushStep::report_of(const PushJob& job, const BatchResult& result, bool finite,
                               double squares) {
    WorkerTimes times = times_.times();
    times.use = context_.meter().use();
    times.telemetry_s = context_.meter().take_cost_s();
    return {.ticket = {.id = job.id,
                       .lease = job.order.lease,
                       .version = job.version,
                       .samples = job.batch.size(),
                       .finite = finite && std::isfinite(result.loss_sum),
                       .loss_sum = result.loss_sum,
                       .correct = result.correct,
                       .gradient_norm = std::sqrt(squares),
                       .work = job.order.work.work},
            .times = times,
            .validation = job.order.validation,
            .slot = job.place.slot,
            .layout = layout_.number()};
}

}  // namespace cohort
