#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What the workers of a run reported, in the order in which it arrived.
struct RecordedLoad {
    std::string file;
    std::string what;  ///< its pattern or trace; of a real run the file
    int workers = 0;
    std::int64_t batch = 0;
    std::vector<IterationRecord> records;
    std::map<std::string, std::string, std::less<>> options;  ///< of a virtual run, by name
    double healthy_iteration_s = 0;
};

/// What `cohort train --record-load` writes: CSV, this line and a row per record, each with its
/// end.
[[nodiscard]] std::string recorded_load_header();
/// @param batch  --batch of the run
void append_recorded_load(std::string& text, const IterationRecord& record, std::int64_t batch);
/// Reads it. Errors: FileError naming file, line and column; also when it holds no records.
[[nodiscard]] RecordedLoad parse_recorded_load(const std::string& file);

/// Errors: FileError naming `where` and the column when a number of the record is out of range.
void check_record(const IterationRecord& record, const std::string& where);

}  // namespace cohort
