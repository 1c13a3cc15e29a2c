#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// A row of a sweep's results with the numbers that comparisons read.
inline RunRow make_test_row(const std::string& mode, const std::string& pattern, std::uint64_t seed,
                            std::optional<double> tta_s) {
    RunRow row;
    row.mode = mode;
    row.pattern = pattern;
    row.seed = {.seed = seed, .pattern_seed = seed};
    row.lr = 0.05;
    row.target_accuracy = 0.88;
    row.budget_samples = 1200000;
    row.stop_reason = tta_s ? "target" : "budget";
    row.tta_virtual_s = tta_s;
    if (tta_s) {
        row.samples_to_target = static_cast<std::int64_t>(*tta_s * 1000);
    }
    row.virtual_s = tta_s.value_or(2000);
    row.samples = row.samples_to_target.value_or(1200000);
    row.quality.value = tta_s ? 0.881 : 0.8;
    row.samples_per_s = static_cast<double>(row.samples) / row.virtual_s;
    row.command = "cohort simulate --mode " + mode;
    row.file = mode + "_" + pattern + "/result.h5";
    return row;
}

}  // namespace cohort
