#pragma once

#include <exception>
#include <string>

#include "cohort/comm/rank_map.hpp"
#include "cohort/train/trainer.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// The first line of metrics.jsonl. @param device of rank 0
[[nodiscard]] std::string start_json(const JobParts& parts, const RankMap& map,
                                     const std::string& device, const TrainProgress& progress);

/// The summary, last line of metrics.jsonl.
[[nodiscard]] std::string summary_json(const TrainSummary& summary, const TrainOptions& options);

/// Last line of metrics.jsonl when the job ends because of a rank: message and exit_code alone.
[[nodiscard]] std::string failure_json(int exit_code, const std::string& reason);

/// Last line of metrics.jsonl when the run ends with an error.
[[nodiscard]] std::string error_json(const std::exception& error, int exit_code,
                                     const TrainProgress& progress);

}  // namespace cohort
