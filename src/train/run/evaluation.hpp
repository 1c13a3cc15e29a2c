#pragma once

#include <functional>
#include <optional>

#include "cohort/data/loader.hpp"
#include "cohort/model/trainable_model.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

struct ModelFile;

/// Copies a model's parameters and state into a replica of its graph.
void load_model(const ModelFile& model, TrainableModel& replica);

/// Runs the whole set of `loader` through `replica` in inference mode.
/// @param abandon asked before every batch and while waiting for one; true gives std::nullopt
[[nodiscard]] std::optional<EvaluationReport> evaluate_all(TrainableModel& replica, Loader& loader,
                                                           std::int64_t batch,
                                                           const std::function<bool()>& abandon);

/// Sums over the samples [begin, end) of `loader`'s set, in stored order; an empty range gives
/// zeros. part_of(set size, part, parts) cuts a set among workers.
/// @param abandon as above  @param progress told after every batch how many samples are done
[[nodiscard]] std::optional<BatchResult> evaluate_range(
    TrainableModel& replica, Loader& loader, std::int64_t begin, std::int64_t end,
    std::int64_t batch, const std::function<bool()>& abandon,
    const std::function<void(std::int64_t)>& progress = {});

/// The report on a whole set from its sums. @param seconds that it took
[[nodiscard]] EvaluationReport evaluation_report(const BatchResult& sums, double seconds);

}  // namespace cohort
