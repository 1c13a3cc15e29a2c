#include "train/fit/predictor_scores_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace cohort {

std::string predictor_scores_json(std::span<const PredictorScore> scores) {
    auto json = nlohmann::ordered_json::array();
    for (const PredictorScore& score : scores) {
        json.push_back({{"predictor", score.predictor},
                        {"uses", score.uses},
                        {"horizon", score.horizon},
                        {"predictions", score.predictions},
                        {"relative_error", score.relative_error},
                        {"precision", score.precision},
                        {"recall", score.recall},
                        {"f1", score.f1}});
    }
    return json.dump();
}

std::string predictor_scores_line(std::span<const PredictorScore> scores) {
    std::string line;
    for (const PredictorScore& score : scores) {
        if (line.empty()) {
            const bool other = !score.uses.empty() && score.uses != score.predictor;
            line = fmt::format("predictor {}{}: ", score.predictor,
                               other ? fmt::format(" (now {})", score.uses) : std::string());
        } else {
            line += "; ";
        }
        line += fmt::format("{} ahead off by {:.1f} %, F1 of stragglers {:.2f}", score.horizon,
                            100 * score.relative_error, score.f1);
    }
    return line;
}

}  // namespace cohort
