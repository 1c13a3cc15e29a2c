#include "train/coordinator/update_recorder.hpp"

#include <algorithm>

#include "cohort/sched/modes.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_records.hpp"

namespace cohort {

UpdateExtras UpdateRecorder::decide(std::int64_t samples) {
    UpdateExtras extras;
    if (records_.session.stopping() || samples >= records_.parts.budget_samples) {
        return extras;  // the end of the run does it all
    }
    records_.evaluations.add_due(samples, is_synchronous(records_.session.engine().plan()), extras);
    if (records_.checkpoints.due(samples, records_.reporter.clock().now())) {
        extras.snapshot.checkpoint = records_.checkpoints.start(samples);
    } else if (records_.mirrors.due(records_.reporter.clock().now())) {
        extras.snapshot.checkpoint = records_.mirrors.start(records_.reporter.clock().now());
    }
    return extras;
}

void UpdateRecorder::drop(const NonFiniteBatch& batch) {
    if (batch.others_finite) {
        failed_.finite();
    }
    StepReport step{.result = batch.result, .dropped_because = batch.because};
    for (const LeaseSlice& slice : batch.leases) {
        failed_.failed(samples_.samples(slice));
        if (FailedSamples::Again again = failed_.again(); !again.samples.empty()) {
            step.failed_again = std::move(again.samples);
            step.others_finite = again.others_finite;
        }
    }
    records_.reporter.dropped(step);
}

/// What was given up since it was asked for does not count.
void UpdateRecorder::taken(const UpdateExtras& extras, int evaluation_parts) {
    records_.reporter.update_progress();
    records_.evaluations.taken(extras, evaluation_parts);
    if (records_.checkpoints.awaits(extras.snapshot.checkpoint)) {
        records_.checkpoints.captured(snapshot(), records_.reporter.clock().now());
    } else if (records_.mirrors.awaits(extras.snapshot.checkpoint)) {
        records_.mirrors.captured(snapshot());
    }
}

void UpdateRecorder::undone(std::int64_t updates, std::int64_t samples, const std::string& why) {
    records_.reporter.update_progress();
    records_.reporter.metrics().write(
        undone_json(updates, samples, why, records_.reporter.progress()));
    log_warn("{}; {} of {} return and are trained again", why, counted(samples, "sample"),
             counted(updates, "update"));
}

void UpdateRecorder::spent(double compute_s, double exposed_s, double exchange_s) {
    ++batches_;
    compute_s_ += compute_s;
    exposed_s_ += exposed_s;
    exchange_s_ += exchange_s;
}

/// With rings no worker sends by itself: members and riders are compared by what they compute.
void UpdateRecorder::timed(const IterationRecord& measured) {
    IterationRecord record = measured;
    const double sending_s = servers_ ? record.push_s : 0;
    records_.session.iteration_timed(record, record.input_s + record.compute_s + sending_s);
    records_.reporter.hooks().tell(
        [&](TrainHook& hook) { hook.on_push(records_.reporter, record); });
    records_.consultation.timed(record);
    records_.reporter.report_stragglers();
}

void UpdateRecorder::summarize(TrainSummary& summary) const {
    const auto batches = static_cast<double>(std::max<std::int64_t>(batches_, 1));
    summary.compute_s = compute_s_ / batches;
    summary.exposed_s = exposed_s_ / batches;
    summary.exchange_s = exchange_s_ / batches;
}

RunSnapshot UpdateRecorder::snapshot() const {
    const JobContext& parts = records_.parts;
    const SessionCounts& counts = records_.session.counts();
    const OpenLeases& leases = records_.session.leases().open();
    RunSnapshot snapshot;
    snapshot.identity = run_identity(parts.options, parts.train_set->info(), parts.graph);
    snapshot.arithmetic = parts.arithmetic;
    snapshot.progress = records_.reporter.progress();
    snapshot.version = counts.version;
    snapshot.reference_batch = parts.reference_batch;
    snapshot.reference_batches = counts.reference_batches;
    snapshot.lease_state = encode_lease_state(leases.ledger().state());
    snapshot.accounts = leases.accounts();
    snapshot.metrics_bytes = records_.reporter.metrics().position();
    snapshot.parameters = parts.graph.parameters().total();
    return snapshot;
}

}  // namespace cohort
