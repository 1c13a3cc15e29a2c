#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/predictor.hpp"
#include "sched/predict/lstm_model.hpp"
#include "sched/recorded/recorded_load.hpp"

namespace cohort {

/// From a folder with the result of `cohort simulate --record-load`, or the file of `cohort train
/// --record-load`. Errors: FileError naming file, line and column; also when it holds no records.
[[nodiscard]] RecordedLoad read_recorded_load(const std::string& path);

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
