#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A field of a row: a number, a missing one or a text; `get` is its place in the row.
template <class Get>
struct Column {
    std::string name;
    Get get;
};
template <class Get>
Column(std::string, Get) -> Column<Get>;

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
template <class Io, class Rows, class... Columns>
void columns(Io& io, const std::string& group, Rows& rows, const Columns&... all) {
    (io.column(group, rows, all), ...);
}

template <class Io, class Result>
void worker_fields(Io& io, Result& r) {
    using Row = WorkerReport;
    columns(io, "/workers", r.workers, Column{"live", &Row::live}, Column{"samples", &Row::samples},
            Column{"pushes", &Row::pushes}, Column{"discounted", &Row::discounted},
            Column{"over_bound", &Row::over_bound}, Column{"own_s", &Row::own_s},
            Column{"last_own_s", &Row::last_own_s}, Column{"lag", &Row::lag},
            Column{"lag_sum", &Row::lag_sum}, Column{"lag_max", &Row::lag_max},
            Column{"lag_updates_sum", &Row::lag_updates_sum}, Column{"lost", &Row::lost});
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        io.column("/workers", r.workers,
                  Column{std::string("refused_") + kReturnReasonNames.at(reason),
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
    columns(io, "/servers", r.servers, Column{"node", &Server::node},
            Column{"cpu_core_s", &Server::cpu_core_s}, Column{"rx_bytes", &Server::rx_bytes},
            Column{"tx_bytes", &Server::tx_bytes}, Column{"busy_s", &Server::busy_s});
    using Point = EvaluationPoint;
    columns(io, "/evaluations", r.evaluations, Column{"virtual_s", &Point::virtual_s},
            Column{"samples_applied", &Point::samples_applied},
            Column{"accuracy", &Point::accuracy}, Column{"loss", &Point::loss},
            Column{"test_samples", &Point::test_samples},
            Column{"average_accuracy", &Point::average_accuracy},
            Column{"average_loss", &Point::average_loss});
    using Switch = SwitchReport;
    columns(io, "/switches", r.switches, Column{"samples", &Switch::samples},
            Column{"virtual_s", &Switch::train_seconds}, Column{"in_force_s", &Switch::in_force_s},
            Column{"first_update_s", &Switch::first_update_s},
            Column{"slowest_own_s", &Switch::slowest_own_s}, Column{"from", &Switch::from},
            Column{"to", &Switch::to}, Column{"why", &Switch::why});
    io.array("/lag_histogram", r.lag_histogram);
    using Slow = StragglerEpisode;
    columns(io, "/stragglers", r.stragglers, Column{"worker", &Slow::worker},
            Column{"cause", &Slow::cause}, Column{"by_lag", &Slow::by_lag},
            Column{"begin_s", &Slow::begin_s}, Column{"end_s", &Slow::end_s},
            Column{"iterations", &Slow::iterations}, Column{"slowdown", &Slow::slowdown});
    columns(io, "/lanes", r.lanes, Column{"worker", &LaneSpan::worker},
            Column{"kind", &LaneSpan::kind}, Column{"begin_s", &LaneSpan::begin_s},
            Column{"end_s", &LaneSpan::end_s});
}

/// What a predictor was worth, and every iteration if it was recorded.
template <class Io, class Result>
void load_fields(Io& io, Result& r) {
    using Score = PredictorScore;
    columns(io, "/predictor_scores", r.predictor_scores, Column{"predictor", &Score::predictor},
            Column{"horizon", &Score::horizon}, Column{"predictions", &Score::predictions},
            Column{"relative_error", &Score::relative_error}, Column{"hits", &Score::hits},
            Column{"false_alarms", &Score::false_alarms}, Column{"misses", &Score::misses},
            Column{"precision", &Score::precision}, Column{"recall", &Score::recall},
            Column{"f1", &Score::f1});
    using Record = IterationRecord;
    columns(io, "/records", r.records, Column{"worker", &Record::worker},
            Column{"iteration", &Record::iteration}, Column{"samples", &Record::samples},
            Column{"version", &Record::version}, Column{"arrived_s", &Record::arrived_s},
            Column{"input_s", &Record::input_s}, Column{"compute_s", &Record::compute_s},
            Column{"push_s", &Record::push_s}, Column{"pull_s", &Record::pull_s},
            Column{"wait_s", &Record::wait_s}, Column{"lag", &Record::lag},
            Column{"cpu_share", used(&ResourceUse::cpu_share)},
            Column{"host_busy", used(&ResourceUse::host_busy)},
            Column{"host_steal", used(&ResourceUse::host_steal)},
            Column{"rx_bytes_s", used(&ResourceUse::rx_bytes_s)},
            Column{"tx_bytes_s", used(&ResourceUse::tx_bytes_s)},
            Column{"device_busy", used(&ResourceUse::device_busy)});
}

/// Decisions of choosers, and what plans achieved: a column for each term.
template <class Io, class Result>
void decision_fields(Io& io, Result& r) {
    using Record = DecisionRecord;
    columns(io, "/decisions", r.decisions, Column{"virtual_s", &Record::seconds},
            Column{"samples", &Record::samples}, Column{"held_s", &Record::held_s},
            Column{"measured_samples_s", &Record::measured_samples_s},
            Column{"measured_loss_fall_s", &Record::measured_loss_fall_s},
            Column{"chooser", &Record::chooser}, Column{"from", &Record::from},
            Column{"to", &Record::to}, Column{"reason", &Record::reason},
            Column{"stragglers", &Record::stragglers}, Column{"candidates", &Record::candidates});
    columns(io, "/rates", r.windows, Column{"virtual_s", &RateWindow::seconds},
            Column{"samples", &RateWindow::samples}, Column{"log_rate", &RateWindow::log_rate},
            Column{"plan", &RateWindow::plan});
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        io.column("/rates", r.windows,
                  Column{std::string(RateFeatures::names()[term]),
                         [term](auto& row) -> auto& { return row.features.values[term];
    }
});
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
    io.value("/", "step_curvature", r.step_curvature);
    io.value("/", "agreement", r.agreement);
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
    io.column("/options", r.options, Column{"names", &Option::first});
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
