#include "core/scores.hpp"

#include <fmt/format.h>

#include <cmath>

namespace cohort {

std::vector<Score> scores_of(Task task, double accuracy, double loss) {
    switch (task) {
        case Task::kClassification: break;
        case Task::kLanguage:
            return {{"accuracy", accuracy}, {"loss", loss}, {"perplexity", std::exp(loss)}};
        case Task::kRegression: return {{"loss", loss}, {"r2", r_squared(loss)}};
    }
    return {{"accuracy", accuracy}, {"loss", loss}};
}

std::string format_scores(Task task, double accuracy, double loss) {
    if (task == Task::kRegression) {
        return fmt::format("loss {:.4f}, R2 {:.4f}", loss, r_squared(loss));
    }
    return fmt::format(
        "accuracy {:.2f} %, loss {:.4f}{}", 100 * accuracy, loss,
        task == Task::kLanguage ? fmt::format(", perplexity {:.2f}", std::exp(loss)) : "");
}

}  // namespace cohort
