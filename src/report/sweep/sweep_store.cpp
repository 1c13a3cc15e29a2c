#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>
#include <stdexcept>

#include "cohort/core/error.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "data/hdf5/store.hpp"
#include "report/sweep/sweep_columns.hpp"

// Layout: every column of results.csv is an array /runs/NAME, with NaN for no value; every column
// of tuning.csv /tuning/NAME. Texts are bytes, UTF-8, each value ended by a line feed.

namespace cohort {
namespace {

const StoreFormat kFormat{"cohort-sweep", 1};

std::vector<std::byte> lines_of(const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) {
        text += value + '\n';
    }
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// Writes the values of one column, all of one type.
class ColumnWriter {
public:
    ColumnWriter(StoreWriter& store, std::string name) : store_(store), name_(std::move(name)) {}

    template <class Row>
    void put(const Column<Row>& column, const std::vector<Row>& rows) {
        std::visit([&](const auto& first) { put_as(first, column, rows); }, column.get(Row()));
    }

private:
    template <class T, class Row>
    void put_as(const T& /*kind*/, const Column<Row>& column, const std::vector<Row>& rows) {
        std::vector<T> values;
        for (const Row& row : rows) {
            values.push_back(std::get<T>(column.get(row)));
        }
        write(values);
    }

    void write(const std::vector<std::string>& values) { store_.put(name_, lines_of(values)); }
    void write(const std::vector<double>& values) { store_.put(name_, values); }
    void write(const std::vector<std::int64_t>& values) { store_.put(name_, values); }
    void write(const std::vector<HashValue>& hashes) {
        std::vector<std::uint64_t> values;
        for (const HashValue hash : hashes) {
            values.push_back(hash.value);
        }
        store_.put(name_, values);
    }

    StoreWriter& store_;
    std::string name_;
};

template <class Row>
void put_columns(StoreWriter& store, const std::string& group,
                 const std::vector<Column<Row>>& columns, const std::vector<Row>& rows) {
    for (const Column<Row>& column : columns) {
        ColumnWriter(store, group + "/" + column.name).put(column, rows);
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
        return flag(std::find(results.waiting.begin(), results.waiting.end(), mode.name) !=
                    results.waiting.end());
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
