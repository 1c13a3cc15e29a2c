#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/task.hpp"

namespace cohort {

/// R2, the coefficient of determination, from the mean squared error of standardised targets: the
/// share of the targets' variance over the train set that a network explains. 1: no error, 0: as
/// good as the mean of the train set, below 0: worse.
[[nodiscard]] constexpr double r_squared(double loss) noexcept {
    return 1 - loss;
}

/// A number of a record in JSON.
struct Score {
    std::string_view name;
    double value = 0;
};

/// accuracy (0..1) and loss; of text perplexity too, exp of the loss per token; of a regression
/// loss and r2.
[[nodiscard]] std::vector<Score> scores_of(Task task, double accuracy, double loss);

/// "accuracy 91.20 %, loss 0.2412", of text ", perplexity 1.27" too; of a regression
/// "loss 0.2412, R2 0.7588".
[[nodiscard]] std::string format_scores(Task task, double accuracy, double loss);

}  // namespace cohort
