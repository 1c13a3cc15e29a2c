#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "cohort/comm/rank_map.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/train/trainer.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

using Json = nlohmann::ordered_json;

template <class T>
[[nodiscard]] Json or_null(bool known, const T& value) {
    return known ? Json(value) : Json(nullptr);
}
template <class T>
[[nodiscard]] Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

/// What summaries of real and of virtual runs say of a worker. @param seconds  of the run
[[nodiscard]] Json worker_json(const WorkerReport& worker, double seconds);
/// And of the pushes of all workers.
[[nodiscard]] Json pushes_json(const WorkerReport& all);
/// The scores of a run's predictor, one entry per horizon; an empty array when there are none.
[[nodiscard]] Json predictor_scores_json(std::span<const PredictorScore> scores);
/// The same for people, in a line; empty when there are none.
[[nodiscard]] std::string predictor_scores_line(std::span<const PredictorScore> scores);

/// The first line of metrics.jsonl, or of a part of it. @param device of rank 0  @param after_loss
/// the loss of a rank after which the others go on, a sentence; empty: the run was started so
[[nodiscard]] std::string start_json(const JobContext& parts, const RankMap& map,
                                     const std::string& device, const TrainProgress& progress,
                                     const std::string& after_loss);

/// Updates whose result nobody holds any more. @param progress  without them
[[nodiscard]] std::string undone_json(std::int64_t updates, std::int64_t samples,
                                      const std::string& why, const TrainProgress& progress);

/// The summary, last line of metrics.jsonl.
[[nodiscard]] std::string summary_json(const TrainSummary& summary, const TrainOptions& options);

/// Last line of metrics.jsonl when the job ends because of a rank: message and exit_code alone.
[[nodiscard]] std::string failure_json(int exit_code, const std::string& reason);

/// Last line of metrics.jsonl when the run ends with an error.
[[nodiscard]] std::string error_json(const std::exception& error, int exit_code,
                                     const TrainProgress& progress);

}  // namespace cohort
