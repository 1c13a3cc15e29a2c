// Tables of a sweep as CSV and as results.h5.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/report/sweep_results.hpp"
#include "data/hdf5/store.hpp"
#include "report/sweep/csv_value.hpp"

// Layout of results.h5: every column of results.csv is an array /runs/NAME, with NaN for no value;
// every column of tuning.csv /tuning/NAME. Texts are bytes, UTF-8, each value ended by a line feed.

namespace cohort {
namespace {

/// A value of a table; NaN: none. Unsigned numbers are hashes.
using ColumnValue = std::variant<std::string, double, std::int64_t, std::uint64_t>;

/// A column of results.csv and results.h5.
template <class Row>
struct Column {
    std::string name;
    std::function<ColumnValue(const Row&)> get;
};

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

template <class Row, class Field>
Column<Row> column(std::string name, Field Row::*field) {
    return {std::move(name), [field](const Row& row) -> ColumnValue { return row.*field; }};
}

template <class Row, class Number>
Column<Row> column(std::string name, std::optional<Number> Row::*field) {
    return {std::move(name), [field](const Row& row) -> ColumnValue {
                return row.*field ? static_cast<double>(*(row.*field)) : kNoValue;
            }};
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

const std::vector<Column<RunRow>>& run_columns() {
    static const std::vector<Column<RunRow>> columns{
        column("mode", &RunRow::mode),
        column("pattern", &RunRow::pattern),
        seed<RunRow>("seed", &ExperimentSeed::seed),
        seed<RunRow>("pattern_seed", &ExperimentSeed::pattern_seed),
        column("lr", &RunRow::lr),
        column("target_accuracy", &RunRow::target_accuracy),
        column("target_loss", &RunRow::target_loss),
        column("budget_samples", &RunRow::budget_samples),
        column("stop_reason", &RunRow::stop_reason),
        column("tta_virtual_s", &RunRow::tta_virtual_s),
        column("samples_to_target", &RunRow::samples_to_target),
        column("virtual_s", &RunRow::virtual_s),
        {"accuracy", [](const RunRow& row) -> ColumnValue { return row.quality.value; }},
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
        column("digest", &RunRow::digest),
        column("command", &RunRow::command),
        column("wall_s", &RunRow::wall_s),
        {"events_per_s",
         [](const RunRow& row) -> ColumnValue {
             return row.wall_s > 0 ? static_cast<double>(row.events) / row.wall_s : 0;
         }},
    };
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

/// A header and a line per row (RFC 4180, lines end with \n).
template <class Row>
std::string csv_of(const std::vector<Column<Row>>& columns, const std::vector<Row>& rows) {
    std::string text;
    for (const Column<Row>& column : columns) {
        text += (text.empty() ? "" : ",") + column.name;
    }
    text += '\n';
    for (const Row& row : rows) {
        std::string line;
        for (const Column<Row>& column : columns) {
            line +=
                (&column == &columns.front() ? "" : ",") + std::visit(CsvText(), column.get(row));
        }
        text += line + '\n';
    }
    return text;
}

const StoreFormat kFormat{"cohort-sweep", 1};

std::vector<std::byte> lines_of(const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) {
        text += value + '\n';
    }
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// All values of a column are of one type.
template <class Row>
void put_columns(StoreWriter& store, const std::string& group,
                 const std::vector<Column<Row>>& columns, const std::vector<Row>& rows) {
    for (const Column<Row>& column : columns) {
        const std::string name = group + "/" + column.name;
        std::visit(
            [&]<class T>(const T& /*kind*/) {
                std::vector<T> values;
                for (const Row& row : rows) {
                    values.push_back(std::get<T>(column.get(row)));
                }
                if constexpr (std::is_same_v<T, std::string>) {
                    store.put(name, lines_of(values));
                } else {
                    store.put(name, values);
                }
            },
            column.get(Row()));
    }
}

/// A column of the plan: texts of modes, patterns ...
template <class Row, class Get>
void put_lines(StoreWriter& store, const std::string& name, const std::vector<Row>& rows, Get get) {
    std::vector<std::string> values;
    for (const Row& row : rows) {
        values.push_back(get(row));
    }
    store.put(name, lines_of(values));
}

void put_plan(StoreWriter& store, const SweepResults& results) {
    store.set("/", "title", results.title);
    store.set("/", "planned", results.planned);
    const auto flag = [](bool on) -> std::string { return on ? "true" : "false"; };
    const std::vector<ExperimentMode>& modes = results.modes;
    put_lines(store, "/modes/name", modes, [](const auto& mode) { return mode.name; });
    put_lines(store, "/modes/mode", modes, [](const auto& mode) {
        const std::string schedule = option_of(mode.options, "mode-schedule");
        return schedule.empty() ? option_of(mode.options, "mode") : schedule;
    });
    put_lines(store, "/modes/role", modes, [](const auto& mode) { return mode.role; });
    put_lines(store, "/modes/cites", modes, [](const auto& mode) { return mode.cites; });
    put_lines(store, "/modes/fixed", modes, [&](const auto& mode) { return flag(mode.fixed); });
    put_lines(store, "/modes/reference", modes,
              [&](const auto& mode) { return flag(mode.reference); });
    put_lines(store, "/modes/versus", modes, [&](const auto& mode) { return flag(mode.versus); });
    put_lines(store, "/modes/waiting", modes, [&](const auto& mode) {
        return flag(std::ranges::find(results.waiting, mode.name) != results.waiting.end());
    });
    put_lines(store, "/patterns/name", results.patterns, [](const auto& name) { return name; });
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint64_t> pattern_seeds;
    for (const ExperimentSeed& seed : results.seeds) {
        seeds.push_back(seed.seed);
        pattern_seeds.push_back(seed.pattern_seed);
    }
    store.put("/seeds/seed", seeds);
    store.put("/seeds/pattern_seed", pattern_seeds);
    put_lines(store, "/runs/file", results.rows, [](const auto& row) { return row.file; });
}

std::vector<std::string> get_lines(const StoreReader& store, const std::string& name) {
    const std::vector<std::byte> bytes = store.get<std::byte>(name);
    std::string text(bytes.size(), '\0');
    std::memcpy(text.data(), bytes.data(), bytes.size());
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

std::vector<ExperimentMode> get_modes(const StoreReader& store) {
    const auto names = get_lines(store, "/modes/name");
    const auto modes = get_lines(store, "/modes/mode");
    const auto roles = get_lines(store, "/modes/role");
    const auto cites = get_lines(store, "/modes/cites");
    const auto fixed = get_lines(store, "/modes/fixed");
    const auto references = get_lines(store, "/modes/reference");
    const auto judged = store.contains("/modes/versus")
                            ? get_lines(store, "/modes/versus")
                            : std::vector<std::string>(names.size());  // an older program's
    std::vector<ExperimentMode> found;
    for (std::size_t i = 0; i < names.size(); ++i) {
        found.push_back({.name = names[i],
                         .options = {{"mode", modes.at(i)}},
                         .role = roles.at(i),
                         .cites = cites.at(i),
                         .fixed = fixed.at(i) == "true",
                         .reference = references.at(i) == "true",
                         .versus = judged.at(i) == "true"});
    }
    return found;
}

std::vector<TuningRow> get_tuning(const StoreReader& store) {
    const auto modes = get_lines(store, "/tuning/mode");
    const auto commands = get_lines(store, "/tuning/command");
    const auto rates = store.get<double>("/tuning/lr");
    const auto seeds = store.get<std::int64_t>("/tuning/seed");
    const auto pattern_seeds = store.get<std::int64_t>("/tuning/pattern_seed");
    const auto times = store.get<double>("/tuning/tta_virtual_s");
    const auto accuracies = store.get<double>("/tuning/accuracy");
    const auto chosen = store.get<std::int64_t>("/tuning/chosen");
    std::vector<TuningRow> rows;
    for (std::size_t i = 0; i < modes.size(); ++i) {
        rows.push_back(
            {.mode = modes[i],
             .lr = rates.at(i),
             .seed = {static_cast<std::uint64_t>(seeds.at(i)),
                      static_cast<std::uint64_t>(pattern_seeds.at(i))},
             .tta_virtual_s = std::isnan(times.at(i)) ? std::nullopt : std::optional(times[i]),
             .accuracy = accuracies.at(i),
             .chosen = chosen.at(i) != 0,
             .command = commands.at(i)});
    }
    return rows;
}

/// Reads names and files of the rows, without their numbers.
SweepResults read_plan(const std::string& folder) {
    Hdf5Thread thread;
    const StoreReader store(folder + "/" + kSweepFile, thread);
    store.require_format(kFormat);
    SweepResults results;
    results.title = store.attribute<std::string>("/", "title");
    results.planned = store.attribute<std::int64_t>("/", "planned");
    results.modes = get_modes(store);
    const std::vector<std::string> waiting = get_lines(store, "/modes/waiting");
    for (std::size_t mode = 0; mode < waiting.size(); ++mode) {
        if (waiting[mode] == "true") {
            results.waiting.push_back(results.modes.at(mode).name);
        }
    }
    results.patterns = get_lines(store, "/patterns/name");
    const auto seeds = store.get<std::uint64_t>("/seeds/seed");
    const auto pattern_seeds = store.get<std::uint64_t>("/seeds/pattern_seed");
    for (std::size_t i = 0; i < seeds.size(); ++i) {
        results.seeds.push_back({seeds[i], pattern_seeds.at(i)});
    }
    const auto modes = get_lines(store, "/runs/mode");
    const auto patterns = get_lines(store, "/runs/pattern");
    const auto files = get_lines(store, "/runs/file");
    for (std::size_t i = 0; i < modes.size(); ++i) {
        RunRow row;
        row.mode = modes[i];
        row.pattern = patterns.at(i);
        row.file = folder + "/" + files.at(i);
        results.rows.push_back(std::move(row));
    }
    results.tuning = get_tuning(store);
    return results;
}

}  // namespace

std::string results_csv(const SweepResults& results) {
    return csv_of(run_columns(), results.rows);
}

std::string tuning_csv(const SweepResults& results) {
    return csv_of(tuning_columns(), results.tuning);
}

void write_sweep_results(const OutputFile& file, const SweepResults& results) {
    Hdf5Thread thread;
    StoreWriter store(file, kFormat, thread);
    put_plan(store, results);
    put_columns(store, "/runs", run_columns(), results.rows);
    put_columns(store, "/tuning", tuning_columns(), results.tuning);
    store.commit();
}

std::map<std::string, double> rates_of_table(const std::string& folder) {
    std::map<std::string, double> rates;
    try {
        Hdf5Thread thread;
        const StoreReader store(folder + "/" + kSweepFile, thread);
        store.require_format(kFormat);
        const std::vector<std::string> modes = get_lines(store, "/runs/mode");
        const auto of_rows = store.get<double>("/runs/lr");
        for (std::size_t i = 0; i < modes.size(); ++i) {
            rates[modes[i]] = of_rows.at(i);
        }
    } catch (const FileError&) {  // no table, or an incomplete one: it is written again
        rates.clear();
    } catch (const std::out_of_range&) {  // lists of several lengths
        rates.clear();
    }
    return rates;
}

SweepResults read_sweep_results(const std::string& folder) {
    SweepResults results;
    try {
        results = read_plan(folder);
    } catch (const std::out_of_range&) {
        fail<FileError>({.where = folder + "/" + kSweepFile,
                         .what = "its lists are not of one length",
                         .hint = "the same cohort sweep again, which makes the table anew"});
    }
    for (RunRow& row : results.rows) {
        RunRow full = make_row(read_result(row.file), row.file);
        full.mode = row.mode;
        full.pattern = row.pattern;
        row = std::move(full);
    }
    return results;
}

}  // namespace cohort
