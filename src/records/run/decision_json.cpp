#include "records/run/decision_json.hpp"

#include <nlohmann/json.hpp>

namespace cohort {

std::string decision_json(const DecisionRecord& decision) {
    using Json = nlohmann::ordered_json;
    Json candidates = Json::array();
    for (const Candidate& one : decision.candidates) {
        candidates.push_back({{"plan", one.plan},
                              {"samples_per_s", one.samples_s},
                              {"batch_efficiency", one.batch_efficiency},
                              {"staleness_efficiency", one.staleness_efficiency},
                              {"rate", one.rate}});
    }
    const Candidate* const chosen = chosen_candidate(decision);
    const Json line{
        {"chooser", decision.chooser},
        {"from", decision.from},
        {"to", decision.to},
        {"reason", decision.reason},
        {"train_s", decision.seconds},
        {"samples_applied", decision.samples},
        {"decide_s", decision.decide_s},
        {"stragglers", decision.stragglers},
        {"held_s", decision.held_s},
        {"predicted_samples_per_s", chosen == nullptr ? Json(nullptr) : Json(chosen->samples_s)},
        {"measured_samples_per_s", decision.measured_samples_s},
        {"measured_loss_fall_per_s", decision.measured_loss_fall_s},
        {"candidates", candidates}};
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cohort
