#include "python/module/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/core/words.hpp"
#include "python/module/arrays.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace cohort {
namespace {

py::array objects(const py::list& values) {
    return py::module_::import("numpy").attr("array")(values, "dtype"_a = py::dtype("O"));
}

/// Makes a table of rows, column by column.
template <class Row>
class Table {
public:
    explicit Table(const std::vector<Row>& rows) : rows_(rows) {}

    /// @param get  a row's value: a number, a truth value, a text, or std::optional<double>
    template <class Get>
    Table& add(const char* name, const Get& get) {
        using Value = std::decay_t<std::invoke_result_t<Get, const Row&>>;
        if constexpr (std::is_convertible_v<Value, std::string_view>) {
            py::list values;
            for (const Row& row : rows_) {
                values.append(py::str(std::string(std::string_view(std::invoke(get, row)))));
            }
            columns_[name] = objects(values);
        } else {
            fill(name, get, Value());
        }
        return *this;
    }
    [[nodiscard]] py::dict columns() const { return columns_; }

private:
    template <class Get, class Value>
    void fill(const char* name, const Get& get, Value) {
        py::array_t<Value> values = make_array<Value>(rows_.size());
        Value* to = values.mutable_data();
        for (const Row& row : rows_) {
            *to++ = std::invoke(get, row);
        }
        columns_[name] = std::move(values);
    }
    template <class Get, class Value>
    void fill(const char* name, const Get& get, std::optional<Value>) {
        fill(
            name,
            [&](const Row& row) {
                const auto value = std::invoke(get, row);
                return value ? static_cast<double>(*value)
                             : std::numeric_limits<double>::quiet_NaN();
            },
            0.0);
    }

    const std::vector<Row>& rows_;
    py::dict columns_;
};

template <class T>
py::object or_none(const std::optional<T>& value) {
    return value ? py::object(py::cast(*value)) : py::object(py::none());
}

py::str digest_text(std::uint64_t digest) {
    return fmt::format("{:016x}", digest);
}

py::dict summary_of(const SimulationResult& result) {
    py::dict summary;
    summary["stop_reason"] = result.stop_reason;
    summary["virtual_s"] = result.virtual_s;
    summary["samples_applied"] = result.samples_applied;
    summary["updates"] = result.updates;
    summary["events"] = result.events;
    summary["digest"] = digest_text(result.digest);
    summary["tta_virtual_s"] = or_none(result.tta_virtual_s);
    summary["samples_to_target"] = or_none(result.samples_to_target);
    const bool trained =
        std::ranges::find(result.options, std::pair<std::string, std::string>(
                                              "no-train", "true")) == result.options.end();
    summary["test_accuracy"] = or_none(trained ? std::optional(result.accuracy) : std::nullopt);
    summary["test_loss"] = or_none(trained ? std::optional(result.loss) : std::nullopt);
    summary["healthy_iteration_s"] = result.healthy_iteration_s;
    summary["ideal_samples_s"] = or_none(result.ideal_samples_s);
    summary["noise_scale"] = or_none(result.noise_scale);
    summary["samples_leased"] = result.accounts.leased;
    summary["samples_outstanding"] = result.accounts.outstanding;
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        const std::string name = std::string("returned_") + kReturnReasonNames.at(reason);
        summary[name.c_str()] = result.accounts.returned.at(reason);
    }
    summary["samples_computed"] = result.samples_computed;
    summary["wall_s"] = result.wall_s;
    summary["command"] = result.command;
    return summary;
}

py::dict workers_of(const SimulationResult& result) {
    py::dict columns = Table(result.workers)
                           .add("live", &WorkerReport::live)
                           .add("samples", &WorkerReport::samples)
                           .add("pushes", &WorkerReport::pushes)
                           .add("discounted", &WorkerReport::discounted)
                           .add("over_bound", &WorkerReport::over_bound)
                           .add("own_s", &WorkerReport::own_s)
                           .add("lag_sum", &WorkerReport::lag_sum)
                           .add("lag_max", &WorkerReport::lag_max)
                           .add("lost", &WorkerReport::lost)
                           .columns();
    const auto numbers = [&](const char* name, const std::vector<double>& values) {
        columns[name] = make_array(values.size(), values.data());
    };
    numbers("busy_s", result.worker_busy_s);
    numbers("wait_s", result.worker_wait_s);
    numbers("cpu_s", result.worker_cpu_s);
    numbers("bytes", result.worker_bytes);
    return columns;
}

py::dict lanes_of(const SimulationResult& result) {
    return Table(result.lanes)
        .add("worker", &LaneSpan::worker)
        .add("kind",
             [](const LaneSpan& span) {
                 switch (span.kind) {
                     case LaneSpan::Kind::kDelay: return "delay";
                     case LaneSpan::Kind::kInput: return "input";
                     case LaneSpan::Kind::kCompute: return "compute";
                     case LaneSpan::Kind::kPush: return "push";
                     case LaneSpan::Kind::kWait: return "wait";
                     case LaneSpan::Kind::kPull: return "pull";
                     default: return "lost";
                 }
             })
        .add("begin_s", &LaneSpan::begin_s)
        .add("end_s", &LaneSpan::end_s)
        .columns();
}

py::dict tables_of(const SimulationResult& result) {
    py::dict tables;
    tables["evaluations"] = Table(result.evaluations)
                                .add("virtual_s", &EvaluationPoint::virtual_s)
                                .add("samples_applied", &EvaluationPoint::samples_applied)
                                .add("accuracy", &EvaluationPoint::accuracy)
                                .add("loss", &EvaluationPoint::loss)
                                .add("test_samples", &EvaluationPoint::test_samples)
                                .add("average_accuracy", &EvaluationPoint::average_accuracy)
                                .add("average_loss", &EvaluationPoint::average_loss)
                                .columns();
    tables["workers"] = workers_of(result);
    tables["servers"] = Table(result.servers)
                            .add("node", &ServerUse::node)
                            .add("cpu_core_s", &ServerUse::cpu_core_s)
                            .add("rx_bytes", &ServerUse::rx_bytes)
                            .add("tx_bytes", &ServerUse::tx_bytes)
                            .add("busy_s", &ServerUse::busy_s)
                            .add("share", &ServerUse::share)
                            .columns();
    tables["switches"] = Table(result.switches)
                             .add("from", &SwitchReport::from)
                             .add("to", &SwitchReport::to)
                             .add("why", &SwitchReport::why)
                             .add("samples", &SwitchReport::samples)
                             .add("train_seconds", &SwitchReport::train_seconds)
                             .add("in_force_s", &SwitchReport::in_force_s)
                             .columns();
    tables["stragglers"] =
        Table(result.stragglers)
            .add("worker", &StragglerEpisode::worker)
            .add("cause", [](const StragglerEpisode& one) { return word_of(one.cause); })
            .add("begin_s", &StragglerEpisode::begin_s)
            .add("end_s", &StragglerEpisode::end_s)
            .add("iterations", &StragglerEpisode::iterations)
            .add("slowdown", &StragglerEpisode::slowdown)
            .columns();
    tables["decisions"] = Table(result.decisions)
                              .add("seconds", &DecisionRecord::seconds)
                              .add("samples", &DecisionRecord::samples)
                              .add("chooser", &DecisionRecord::chooser)
                              .add("from", &DecisionRecord::from)
                              .add("to", &DecisionRecord::to)
                              .add("reason", &DecisionRecord::reason)
                              .add("held_s", &DecisionRecord::held_s)
                              .add("measured_samples_s", &DecisionRecord::measured_samples_s)
                              .columns();
    tables["lanes"] = lanes_of(result);
    return tables;
}

/// Accuracy, or R2 of a regression; none for the other kind.
std::optional<double> of_kind(const Quality& quality, bool regression) {
    return quality.regression == regression ? std::optional(quality.value) : std::nullopt;
}

py::dict runs_of(const SweepResults& results) {
    return Table(results.rows)
        .add("mode", &RunRow::mode)
        .add("pattern", &RunRow::pattern)
        .add("seed", [](const RunRow& row) { return row.seed.seed; })
        .add("pattern_seed", [](const RunRow& row) { return row.seed.pattern_seed; })
        .add("lr", &RunRow::lr)
        .add("target_accuracy", &RunRow::target_accuracy)
        .add("target_loss", &RunRow::target_loss)
        .add("budget_samples", &RunRow::budget_samples)
        .add("stop_reason", &RunRow::stop_reason)
        .add("tta_virtual_s", &RunRow::tta_virtual_s)
        .add("samples_to_target", &RunRow::samples_to_target)
        .add("virtual_s", &RunRow::virtual_s)
        .add("accuracy", [](const RunRow& row) { return of_kind(row.quality, false); })
        .add("r2", [](const RunRow& row) { return of_kind(row.quality, true); })
        .add("samples", &RunRow::samples)
        .add("samples_per_s", &RunRow::samples_per_s)
        .add("ideal_samples_per_s", &RunRow::ideal_samples_per_s)
        .add("updates", &RunRow::updates)
        .add("lag_mean", &RunRow::lag_mean)
        .add("lag_max", &RunRow::lag_max)
        .add("worker_wait", &RunRow::worker_wait)
        .add("server_busy", &RunRow::server_busy)
        .add("switches", &RunRow::switches)
        .add("regroupings", &RunRow::regroupings)
        .add("digest", [](const RunRow& row) { return fmt::format("{:016x}", row.digest); })
        .add("command", &RunRow::command)
        .add("file", &RunRow::file)
        .columns();
}

}  // namespace

py::dict result_of(const SimulationResult& result) {
    py::dict options;
    for (const auto& [name, value] : result.options) {
        options[name.c_str()] = value;
    }
    return py::dict("summary"_a = summary_of(result), "options"_a = options,
                    "tables"_a = tables_of(result));
}

py::dict result_of(const SweepResults& results) {
    py::dict tables;
    tables["runs"] = runs_of(results);
    tables["tuning"] = Table(results.tuning)
                           .add("mode", &TuningRow::mode)
                           .add("lr", &TuningRow::lr)
                           .add("seed", [](const TuningRow& row) { return row.seed.seed; })
                           .add("tta_virtual_s", &TuningRow::tta_virtual_s)
                           .add("accuracy", &TuningRow::accuracy)
                           .add("chosen", &TuningRow::chosen)
                           .columns();
    return py::dict(
        "summary"_a = py::dict("title"_a = results.title, "planned"_a = results.planned,
                               "runs"_a = static_cast<std::int64_t>(results.rows.size())),
        "options"_a = py::dict(), "tables"_a = tables);
}

}  // namespace cohort
