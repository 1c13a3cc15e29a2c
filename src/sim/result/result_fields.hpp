#pragma once

#include <cstddef>
#include <string>

#include "cohort/sim/simulation.hpp"
#include "sim/result/decision_text.hpp"

namespace cohort {

/// Goes over all that a result file holds, for writing and for reading alike, so that neither can
/// forget a field. `Io` has
///   value(group, name, field)    a number or text, an attribute of the group
///   maybe(group, name, field)    an optional number: an attribute that may be missing
///   array(path, numbers)         a vector of numbers
///   column(path, rows, get)      one number of every row; get(row) gives the field
///   texts(group, name, rows, get)  one line of text of every row: an attribute, line by line
///   texts_of(group, name, rows, put, take)  the same of a field that is no text
template <class Io, class Result>
void worker_fields(Io& io, Result& r) {
    auto& rows = r.workers;
    io.column(
        "/workers/live", rows, [](auto& w) -> auto& { return w.live; });
    io.column(
        "/workers/samples", rows, [](auto& w) -> auto& { return w.samples; });
    io.column(
        "/workers/pushes", rows, [](auto& w) -> auto& { return w.pushes; });
    io.column(
        "/workers/discounted", rows, [](auto& w) -> auto& { return w.discounted; });
    io.column(
        "/workers/over_bound", rows, [](auto& w) -> auto& { return w.over_bound; });
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        io.column(
            std::string("/workers/refused_") + kReturnReasonNames.at(reason),
            rows, [reason](auto& w) -> auto& { return w.refused.at(reason); });
    }
    io.column(
        "/workers/own_s", rows, [](auto& w) -> auto& { return w.own_s; });
    io.column(
        "/workers/last_own_s", rows, [](auto& w) -> auto& { return w.last_own_s; });
    io.column(
        "/workers/lag", rows, [](auto& w) -> auto& { return w.lag; });
    io.column(
        "/workers/lag_sum", rows, [](auto& w) -> auto& { return w.lag_sum; });
    io.column(
        "/workers/lag_max", rows, [](auto& w) -> auto& { return w.lag_max; });
    io.column(
        "/workers/lag_updates_sum", rows, [](auto& w) -> auto& { return w.lag_updates_sum; });
    io.column(
        "/workers/lost", rows, [](auto& w) -> auto& { return w.lost; });
    io.array("/workers/busy_s", r.worker_busy_s);
    io.array("/workers/wait_s", r.worker_wait_s);
    io.array("/workers/cpu_s", r.worker_cpu_s);
    io.array("/workers/bytes", r.worker_bytes);
}

template <class Io, class Result>
void table_fields(Io& io, Result& r) {
    auto& servers = r.servers;
    io.column(
        "/servers/node", servers, [](auto& s) -> auto& { return s.node; });
    io.column(
        "/servers/cpu_core_s", servers, [](auto& s) -> auto& { return s.cpu_core_s; });
    io.column(
        "/servers/rx_bytes", servers, [](auto& s) -> auto& { return s.rx_bytes; });
    io.column(
        "/servers/tx_bytes", servers, [](auto& s) -> auto& { return s.tx_bytes; });
    io.column(
        "/servers/busy_s", servers, [](auto& s) -> auto& { return s.busy_s; });
    auto& points = r.evaluations;
    io.column(
        "/evaluations/virtual_s", points, [](auto& p) -> auto& { return p.virtual_s; });
    io.column(
        "/evaluations/samples_applied", points, [](auto& p) -> auto& { return p.samples_applied; });
    io.column(
        "/evaluations/accuracy", points, [](auto& p) -> auto& { return p.accuracy; });
    io.column(
        "/evaluations/loss", points, [](auto& p) -> auto& { return p.loss; });
    io.column(
        "/evaluations/test_samples", points, [](auto& p) -> auto& { return p.test_samples; });
    io.column(
        "/evaluations/average_accuracy", points,
        [](auto& p) -> auto& { return p.average_accuracy; });
    io.column(
        "/evaluations/average_loss", points, [](auto& p) -> auto& { return p.average_loss; });
    auto& changes = r.switches;
    io.column(
        "/switches/samples", changes, [](auto& s) -> auto& { return s.samples; });
    io.column(
        "/switches/virtual_s", changes, [](auto& s) -> auto& { return s.train_seconds; });
    io.column(
        "/switches/in_force_s", changes, [](auto& s) -> auto& { return s.in_force_s; });
    io.column(
        "/switches/first_update_s", changes, [](auto& s) -> auto& { return s.first_update_s; });
    io.column(
        "/switches/slowest_own_s", changes, [](auto& s) -> auto& { return s.slowest_own_s; });
    io.texts(
        "/switches", "from", changes, [](auto& s) -> auto& { return s.from; });
    io.texts(
        "/switches", "to", changes, [](auto& s) -> auto& { return s.to; });
    io.texts(
        "/switches", "why", changes, [](auto& s) -> auto& { return s.why; });
    io.array("/lag_histogram", r.lag_histogram);
    auto& slow = r.stragglers;
    io.column(
        "/stragglers/worker", slow, [](auto& s) -> auto& { return s.worker; });
    io.column(
        "/stragglers/cause", slow, [](auto& s) -> auto& { return s.cause; });
    io.column(
        "/stragglers/by_lag", slow, [](auto& s) -> auto& { return s.by_lag; });
    io.column(
        "/stragglers/begin_s", slow, [](auto& s) -> auto& { return s.begin_s; });
    io.column(
        "/stragglers/end_s", slow, [](auto& s) -> auto& { return s.end_s; });
    io.column(
        "/stragglers/iterations", slow, [](auto& s) -> auto& { return s.iterations; });
    io.column(
        "/stragglers/slowdown", slow, [](auto& s) -> auto& { return s.slowdown; });
    auto& lanes = r.lanes;
    io.column(
        "/lanes/worker", lanes, [](auto& l) -> auto& { return l.worker; });
    io.column(
        "/lanes/kind", lanes, [](auto& l) -> auto& { return l.kind; });
    io.column(
        "/lanes/begin_s", lanes, [](auto& l) -> auto& { return l.begin_s; });
    io.column(
        "/lanes/end_s", lanes, [](auto& l) -> auto& { return l.end_s; });
}

/// What a predictor was worth, and every iteration if it was recorded.
template <class Io, class Result>
void load_fields(Io& io, Result& r) {
    auto& scores = r.predictor_scores;
    io.texts(
        "/predictor_scores", "predictor", scores, [](auto& s) -> auto& { return s.predictor; });
    io.column(
        "/predictor_scores/horizon", scores, [](auto& s) -> auto& { return s.horizon; });
    io.column(
        "/predictor_scores/predictions", scores, [](auto& s) -> auto& { return s.predictions; });
    io.column(
        "/predictor_scores/relative_error", scores,
        [](auto& s) -> auto& { return s.relative_error; });
    io.column(
        "/predictor_scores/hits", scores, [](auto& s) -> auto& { return s.hits; });
    io.column(
        "/predictor_scores/false_alarms", scores, [](auto& s) -> auto& { return s.false_alarms; });
    io.column(
        "/predictor_scores/misses", scores, [](auto& s) -> auto& { return s.misses; });
    io.column(
        "/predictor_scores/precision", scores, [](auto& s) -> auto& { return s.precision; });
    io.column(
        "/predictor_scores/recall", scores, [](auto& s) -> auto& { return s.recall; });
    io.column(
        "/predictor_scores/f1", scores, [](auto& s) -> auto& { return s.f1; });
    auto& records = r.records;
    io.column(
        "/records/worker", records, [](auto& i) -> auto& { return i.worker; });
    io.column(
        "/records/iteration", records, [](auto& i) -> auto& { return i.iteration; });
    io.column(
        "/records/samples", records, [](auto& i) -> auto& { return i.samples; });
    io.column(
        "/records/version", records, [](auto& i) -> auto& { return i.version; });
    io.column(
        "/records/arrived_s", records, [](auto& i) -> auto& { return i.arrived_s; });
    io.column(
        "/records/input_s", records, [](auto& i) -> auto& { return i.input_s; });
    io.column(
        "/records/compute_s", records, [](auto& i) -> auto& { return i.compute_s; });
    io.column(
        "/records/push_s", records, [](auto& i) -> auto& { return i.push_s; });
    io.column(
        "/records/pull_s", records, [](auto& i) -> auto& { return i.pull_s; });
    io.column(
        "/records/wait_s", records, [](auto& i) -> auto& { return i.wait_s; });
    io.column(
        "/records/lag", records, [](auto& i) -> auto& { return i.lag; });
    io.column(
        "/records/cpu_share", records, [](auto& i) -> auto& { return i.use.cpu_share; });
    io.column(
        "/records/host_busy", records, [](auto& i) -> auto& { return i.use.host_busy; });
    io.column(
        "/records/host_steal", records, [](auto& i) -> auto& { return i.use.host_steal; });
    io.column(
        "/records/rx_bytes_s", records, [](auto& i) -> auto& { return i.use.rx_bytes_s; });
    io.column(
        "/records/tx_bytes_s", records, [](auto& i) -> auto& { return i.use.tx_bytes_s; });
    io.column(
        "/records/device_busy", records, [](auto& i) -> auto& { return i.use.device_busy; });
}

template <class Io, class Result>
void decision_fields(Io& io, Result& r) {
    auto& rows = r.decisions;
    io.column(
        "/decisions/virtual_s", rows, [](auto& d) -> auto& { return d.seconds; });
    io.column(
        "/decisions/samples", rows, [](auto& d) -> auto& { return d.samples; });
    io.column(
        "/decisions/held_s", rows, [](auto& d) -> auto& { return d.held_s; });
    io.column(
        "/decisions/measured_samples_s", rows,
        [](auto& d) -> auto& { return d.measured_samples_s; });
    io.column(
        "/decisions/measured_loss_fall_s", rows,
        [](auto& d) -> auto& { return d.measured_loss_fall_s; });
    io.texts(
        "/decisions", "chooser", rows, [](auto& d) -> auto& { return d.chooser; });
    io.texts(
        "/decisions", "from", rows, [](auto& d) -> auto& { return d.from; });
    io.texts(
        "/decisions", "to", rows, [](auto& d) -> auto& { return d.to; });
    io.texts(
        "/decisions", "reason", rows, [](auto& d) -> auto& { return d.reason; });
    io.texts_of(
        "/decisions", "stragglers", rows, [](auto& d) { return text_of_workers(d.stragglers); },
        [](auto& d, const std::string& text) { d.stragglers = workers_of_text(text); });
    io.texts_of(
        "/decisions", "candidates", rows, [](auto& d) { return text_of_candidates(d.candidates); },
        [](auto& d, const std::string& text) { d.candidates = candidates_of_text(text); });
}

/// What plans achieved; a column for each term.
template <class Io, class Result>
void rate_fields(Io& io, Result& r) {
    auto& rows = r.windows;
    io.column(
        "/rates/virtual_s", rows, [](auto& w) -> auto& { return w.seconds; });
    io.column(
        "/rates/samples", rows, [](auto& w) -> auto& { return w.samples; });
    io.column(
        "/rates/log_rate", rows, [](auto& w) -> auto& { return w.log_rate; });
    io.texts(
        "/rates", "plan", rows, [](auto& w) -> auto& { return w.plan; });
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        io.column(
            "/rates/" + std::string(RateFeatures::kNames[term]),
            rows, [term](auto& w) -> auto& { return w.features.values[term]; });
    }
}

template <class Io, class Result>
void result_fields(Io& io, Result& r) {
    io.value("/", "command", r.command);
    io.value("/", "stop_reason", r.stop_reason);
    io.value("/", "virtual_s", r.virtual_s);
    io.value("/", "samples_applied", r.samples_applied);
    io.value("/", "updates", r.updates);
    io.value("/", "events", r.events);
    io.value("/", "digest", r.digest);
    io.maybe("/", "tta_virtual_s", r.tta_virtual_s);
    io.maybe("/", "samples_to_target", r.samples_to_target);
    io.value("/", "accuracy", r.accuracy);
    io.value("/", "loss", r.loss);
    io.maybe("/", "noise_scale", r.noise_scale);
    io.maybe("/", "step_curvature", r.step_curvature);
    io.maybe("/", "agreement", r.agreement);
    io.value("/", "healthy_iteration_s", r.healthy_iteration_s);
    io.maybe("/", "ideal_samples_s", r.ideal_samples_s);
    io.value("/", "lanes_from_s", r.lanes_from_s);
    io.value("/", "wall_s", r.wall_s);
    io.value("/", "engine_core_s", r.engine_core_s);
    io.value("/", "threads", r.threads);
    io.value("/", "samples_computed", r.samples_computed);
    io.value("/", "buffer_bytes", r.buffer_bytes);
    io.value("/", "peak_bytes", r.peak_bytes);
    io.texts(
        "/options", "names", r.options, [](auto& o) -> auto& { return o.first; });
    io.value("/accounts", "leased", r.accounts.leased);
    io.value("/accounts", "applied", r.accounts.applied);
    io.value("/accounts", "discounted", r.accounts.discounted);
    io.value("/accounts", "over_bound", r.accounts.over_bound);
    io.value("/accounts", "outstanding", r.accounts.outstanding);
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        io.value("/accounts", std::string("returned_") + kReturnReasonNames.at(reason),
                 r.accounts.returned.at(reason));
    }
    worker_fields(io, r);
    table_fields(io, r);
    load_fields(io, r);
    decision_fields(io, r);
    rate_fields(io, r);
    for (auto& [name, text] : r.options) {
        io.value("/options", "--" + name, text);
    }
}

}  // namespace cohort
