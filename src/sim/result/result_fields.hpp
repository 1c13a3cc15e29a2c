#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A field of a row: a number, a missing one or a text; `get` is its place in the row.
template <class Get>
struct Named {
    std::string name;
    Get get;
};
template <class Get>
Named(std::string, Get) -> Named<Get>;

/// The place of a number in what a record used.
template <class Field>
auto used(Field field) {
    return [field](auto& record) -> auto& {
        return record.use.*field;
    };
}

/// Goes over all that a result file holds, for writing and for reading alike, so that neither can
/// forget a field. `Io` has
///   value(group, name, field)    a number or text, an attribute of the group; an optional number
///                                may be missing
///   array(path, numbers)         a vector of numbers
///   column(group, rows, column)  a field of every row
template <class Io, class Rows, class... Fields>
void columns(Io& io, const std::string& group, Rows& rows, const Fields&... all) {
    (io.column(group, rows, all), ...);
}

template <class Io, class Result>
void worker_fields(Io& io, Result& r) {
    using Row = WorkerReport;
    columns(io, "/workers", r.workers, Named{"live", &Row::live}, Named{"samples", &Row::samples},
            Named{"pushes", &Row::pushes}, Named{"discounted", &Row::discounted},
            Named{"over_bound", &Row::over_bound}, Named{"own_s", &Row::own_s},
            Named{"last_own_s", &Row::last_own_s}, Named{"lag", &Row::lag},
            Named{"lag_sum", &Row::lag_sum}, Named{"lag_max", &Row::lag_max},
            Named{"lag_updates_sum", &Row::lag_updates_sum}, Named{"lost", &Row::lost});
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        io.column("/workers", r.workers,
                  Named{std::string("refused_") + kReturnReasonNames.at(reason),
                         [reason](auto& row) -> auto& { return row.refused.at(reason);
    }
});
}  // namespace cohort
io.array("/workers/busy_s", r.worker_busy_s);
io.array("/workers/wait_s", r.worker_wait_s);
io.array("/workers/cpu_s", r.worker_cpu_s);
io.array("/workers/bytes", r.worker_bytes);
}

template <class Io, class Result>
void course_fields(Io& io, Result& r) {
    using Server = ServerUse;
    columns(io, "/servers", r.servers, Named{"node", &Server::node},
            Named{"cpu_core_s", &Server::cpu_core_s}, Named{"rx_bytes", &Server::rx_bytes},
            Named{"tx_bytes", &Server::tx_bytes}, Named{"busy_s", &Server::busy_s},
            Named{"share", &Server::share});
    using Resize = ShardResize;
    columns(io, "/resizes", r.resizes, Named{"asked_s", &Resize::asked_s},
            Named{"begun_s", &Resize::begun_s}, Named{"ended_s", &Resize::ended_s},
            Named{"bytes", &Resize::bytes}, Named{"why", &Resize::why});
    using Point = EvaluationPoint;
    columns(io, "/evaluations", r.evaluations, Named{"virtual_s", &Point::virtual_s},
            Named{"samples_applied", &Point::samples_applied}, Named{"accuracy", &Point::accuracy},
            Named{"loss", &Point::loss}, Named{"test_samples", &Point::test_samples},
            Named{"average_accuracy", &Point::average_accuracy},
            Named{"average_loss", &Point::average_loss});
    using Switch = SwitchReport;
    columns(io, "/switches", r.switches, Named{"samples", &Switch::samples},
            Named{"virtual_s", &Switch::train_seconds}, Named{"in_force_s", &Switch::in_force_s},
            Named{"first_update_s", &Switch::first_update_s},
            Named{"slowest_own_s", &Switch::slowest_own_s}, Named{"from", &Switch::from},
            Named{"to", &Switch::to}, Named{"why", &Switch::why});
    io.array("/lag_histogram", r.lag_histogram);
    using Slow = StragglerEpisode;
    columns(io, "/stragglers", r.stragglers, Named{"worker", &Slow::worker},
            Named{"cause", &Slow::cause}, Named{"by_lag", &Slow::by_lag},
            Named{"begin_s", &Slow::begin_s}, Named{"end_s", &Slow::end_s},
            Named{"iterations", &Slow::iterations}, Named{"slowdown", &Slow::slowdown});
    columns(io, "/lanes", r.lanes, Named{"worker", &LaneSpan::worker},
            Named{"kind", &LaneSpan::kind}, Named{"begin_s", &LaneSpan::begin_s},
            Named{"end_s", &LaneSpan::end_s});
}

/// What a predictor was worth, and every iteration if it was recorded.
template <class Io, class Result>
void load_fields(Io& io, Result& r) {
    using Score = PredictorScore;
    columns(io, "/predictor_scores", r.predictor_scores, Named{"predictor", &Score::predictor},
            Named{"horizon", &Score::horizon}, Named{"predictions", &Score::predictions},
            Named{"relative_error", &Score::relative_error}, Named{"hits", &Score::hits},
            Named{"false_alarms", &Score::false_alarms}, Named{"misses", &Score::misses},
            Named{"precision", &Score::precision}, Named{"recall", &Score::recall},
            Named{"f1", &Score::f1});
    using Record = IterationRecord;
    columns(io, "/records", r.records, Named{"worker", &Record::worker},
            Named{"iteration", &Record::iteration}, Named{"samples", &Record::samples},
            Named{"version", &Record::version}, Named{"arrived_s", &Record::arrived_s},
            Named{"input_s", &Record::input_s}, Named{"compute_s", &Record::compute_s},
            Named{"push_s", &Record::push_s}, Named{"pull_s", &Record::pull_s},
            Named{"wait_s", &Record::wait_s}, Named{"lag", &Record::lag},
            Named{"cpu_share", used(&ResourceUse::cpu_share)},
            Named{"host_busy", used(&ResourceUse::host_busy)},
            Named{"host_steal", used(&ResourceUse::host_steal)},
            Named{"rx_bytes_s", used(&ResourceUse::rx_bytes_s)},
            Named{"tx_bytes_s", used(&ResourceUse::tx_bytes_s)},
            Named{"device_busy", used(&ResourceUse::device_busy)});
}

/// Decisions of choosers, and what plans achieved: a column for each term.
template <class Io, class Result>
void decision_fields(Io& io, Result& r) {
    using Record = DecisionRecord;
    columns(io, "/decisions", r.decisions, Named{"virtual_s", &Record::seconds},
            Named{"samples", &Record::samples}, Named{"held_s", &Record::held_s},
            Named{"measured_samples_s", &Record::measured_samples_s},
            Named{"measured_loss_fall_s", &Record::measured_loss_fall_s},
            Named{"chooser", &Record::chooser}, Named{"from", &Record::from},
            Named{"to", &Record::to}, Named{"reason", &Record::reason},
            Named{"stragglers", &Record::stragglers}, Named{"candidates", &Record::candidates});
    columns(io, "/rates", r.windows, Named{"virtual_s", &RateWindow::seconds},
            Named{"samples", &RateWindow::samples}, Named{"log_rate", &RateWindow::log_rate},
            Named{"plan", &RateWindow::plan});
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        const auto value = [term](auto& row) -> decltype(auto) {
            return (row.features.values[term]);
        };
        io.column("/rates", r.windows, Named{std::string(RateFeatures::kNames[term]), value});
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
    io.value("/", "tta_virtual_s", r.tta_virtual_s);
    io.value("/", "samples_to_target", r.samples_to_target);
    io.value("/", "accuracy", r.accuracy);
    io.value("/", "loss", r.loss);
    io.value("/", "noise_scale", r.noise_scale);
    io.value("/", "healthy_iteration_s", r.healthy_iteration_s);
    io.value("/", "ideal_samples_s", r.ideal_samples_s);
    io.value("/", "lanes_from_s", r.lanes_from_s);
    io.value("/", "wall_s", r.wall_s);
    io.value("/", "engine_core_s", r.engine_core_s);
    io.value("/", "threads", r.threads);
    io.value("/", "samples_computed", r.samples_computed);
    io.value("/", "buffer_bytes", r.buffer_bytes);
    io.value("/", "peak_bytes", r.peak_bytes);
    using Option = std::pair<std::string, std::string>;
    io.column("/options", r.options, Named{"names", &Option::first});
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
    course_fields(io, r);
    load_fields(io, r);
    decision_fields(io, r);
    for (auto& [name, text] : r.options) {
        io.value("/options", "--" + name, text);
    }
}

}  // namespace cohort
