#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/output.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/sched/telemetry.hpp"
#include "sched/predict/lstm_model.hpp"

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

/// From a folder with the result of `cohort simulate --record-load`, or the file of `cohort train
/// --record-load`. Errors: FileError naming file, line and column; also when it holds no records.
[[nodiscard]] RecordedLoad read_recorded_load(const std::string& path);

/// What `cohort train --record-load` writes: CSV, a row per record. @param batch  --batch of the
/// run. Errors: as replace_text_file.
void write_recorded_load(const OutputFile& file, const std::vector<IterationRecord>& records,
                         std::int64_t batch);
/// Reads it; as read_recorded_load.
[[nodiscard]] RecordedLoad parse_recorded_load(const std::string& file);

/// Log-normal noise on what a record measured, as real machines have it and virtual ones have not.
struct RecordNoise {
    double deviation = 0;
    std::uint64_t seed = 1;
};
/// One per worker. @param noise  on every second one
[[nodiscard]] std::vector<PredictorSeries> series_of(const RecordedLoad& load,
                                                     const RecordNoise& noise = {});

/// "oracle", or as make_run_predictor. Errors: UsageError, FileError.
[[nodiscard]] std::unique_ptr<Predictor> make_replay_predictor(const RecordedLoad& load,
                                                               std::string_view name,
                                                               const std::string& model_file);

}  // namespace cohort
