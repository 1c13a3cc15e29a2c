#include "report/sweep/sweep_columns.hpp"

#include <limits>

namespace cohort {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

template <class Row, class Field>
Column<Row> column(std::string name, Field Row::*field) {
    return {std::move(name), [field](const Row& row) -> ColumnValue { return row.*field; }};
}

template <class Row>
Column<Row> column(std::string name, std::optional<double> Row::*field) {
    return {std::move(name),
            [field](const Row& row) -> ColumnValue { return (row.*field).value_or(kNoValue); }};
}

Column<RunRow> returned(std::string name, ReturnReason reason) {
    return {std::move(name), [reason](const RunRow& row) -> ColumnValue {
                return row.returned.at(static_cast<std::size_t>(reason));
            }};
}

template <class Row>
Column<Row> seed(std::string name, std::uint64_t ExperimentSeed::*field) {
    return {std::move(name), [field](const Row& row) -> ColumnValue {
                return static_cast<std::int64_t>(row.seed.*field);
            }};
}

std::vector<Column<RunRow>> make_run_columns() {
    return {
        column("mode", &RunRow::mode),
        column("pattern", &RunRow::pattern),
        seed<RunRow>("seed", &ExperimentSeed::seed),
        seed<RunRow>("pattern_seed", &ExperimentSeed::pattern_seed),
        column("lr", &RunRow::lr),
        column("target_accuracy", &RunRow::target_accuracy),
        column("budget_samples", &RunRow::budget_samples),
        column("stop_reason", &RunRow::stop_reason),
        column("tta_virtual_s", &RunRow::tta_virtual_s),
        {"samples_to_target",
         [](const RunRow& row) -> ColumnValue {
             return row.samples_to_target ? static_cast<double>(*row.samples_to_target) : kNoValue;
         }},
        column("virtual_s", &RunRow::virtual_s),
        column("accuracy", &RunRow::accuracy),
        column("samples", &RunRow::samples),
        column("samples_per_s", &RunRow::samples_per_s),
        column("ideal_samples_per_s", &RunRow::ideal_samples_per_s),
        column("updates", &RunRow::updates),
        column("lag_mean", &RunRow::lag_mean),
        column("lag_max", &RunRow::lag_max),
        returned("returned_dropped", ReturnReason::kDropped),
        returned("returned_non_finite", ReturnReason::kNonFinite),
        returned("returned_interrupted", ReturnReason::kInterrupted),
        returned("returned_lost", ReturnReason::kLost),
        returned("returned_void_round", ReturnReason::kVoidRound),
        returned("returned_stop", ReturnReason::kStop),
        column("worker_cpu_per_s", &RunRow::worker_cpu),
        column("worker_bytes_per_s", &RunRow::worker_bytes),
        column("worker_wait_share", &RunRow::worker_wait),
        column("server_cpu_per_s", &RunRow::server_cpu),
        column("server_rx_bytes_per_s", &RunRow::server_rx_bytes),
        column("server_tx_bytes_per_s", &RunRow::server_tx_bytes),
        column("server_busy_share", &RunRow::server_busy),
        column("switches", &RunRow::switches),
        column("regroupings", &RunRow::regroupings),
        {"events",
         [](const RunRow& row) -> ColumnValue { return static_cast<std::int64_t>(row.events); }},
        {"digest", [](const RunRow& row) -> ColumnValue { return HashValue{row.digest}; }},
        column("command", &RunRow::command),
        column("wall_s", &RunRow::wall_s),
        column("events_per_s", &RunRow::events_per_s),
    };
}

struct CsvText {
    std::string operator()(const std::string& text) const {
        if (text.find_first_of(",\"\n\r") == std::string::npos) {
            return text;
        }
        std::string quoted = "\"";
        for (const char c : text) {
            quoted += c == '"' ? "\"\"" : std::string(1, c);
        }
        return quoted + '"';
    }
    std::string operator()(double number) const {
        return std::isnan(number) ? std::string() : fmt::format("{:.9g}", number);
    }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(HashValue hash) const { return fmt::format("{:016x}", hash.value); }
};

}  // namespace

const std::vector<Column<RunRow>>& run_columns() {
    static const std::vector<Column<RunRow>> columns = make_run_columns();
    return columns;
}

const std::vector<Column<TuningRow>>& tuning_columns() {
    static const std::vector<Column<TuningRow>> columns{
        column("mode", &TuningRow::mode),
        column("lr", &TuningRow::lr),
        seed<TuningRow>("seed", &ExperimentSeed::seed),
        seed<TuningRow>("pattern_seed", &ExperimentSeed::pattern_seed),
        column("tta_virtual_s", &TuningRow::tta_virtual_s),
        column("accuracy", &TuningRow::accuracy),
        {"chosen",
         [](const TuningRow& row) -> ColumnValue { return std::int64_t{row.chosen ? 1 : 0}; }},
        column("command", &TuningRow::command),
    };
    return columns;
}

std::string csv_text(const ColumnValue& value) {
    return std::visit(CsvText(), value);
}

}  // namespace cohort
