#include "train/coordinator/modes/mode_consultation.hpp"

#include <utility>

namespace cohort {

ModeConsultation::ModeConsultation(TrainingSession& session, const Clock& clock,
                                   std::shared_ptr<const LstmModel> model)
    : session_(session), clock_(clock), model_(std::move(model)) {
    keep_forecasts();
}

void ModeConsultation::keep_forecasts() {
    session_.keep_forecasts();
    LoadMonitor* const load = session_.load();
    if (load == nullptr || !load->predicts() || !model_) {
        return;
    }
    if (!refiner_) {
        const SessionOptions& options = session_.options();
        refiner_ = std::make_unique<PredictorRefiner>(*model_, options.workers, options.batch);
    }
    if (const auto network = refiner_->take()) {
        load->renew(network);
    }
}

std::optional<double> ModeConsultation::wake_s() const {
    const std::optional<double> at_s = session_.wake_at();
    return at_s ? std::optional<double>(*at_s - session_.options().now().training_s) : at_s;
}

std::optional<PlanChange> ModeConsultation::consult(bool due) {
    if (!session_.wants_consultation(due)) {
        return std::nullopt;
    }
    keep_forecasts();
    const Clock::Seconds before = clock_.now();
    auto change = session_.consult();
    session_.modes().asked((clock_.now() - before).count());
    return change;
}

void ModeConsultation::timed(const IterationRecord& record) {
    if (refiner_) {
        refiner_->add(record);
    }
}

void ModeConsultation::forget(int worker) {
    if (refiner_) {
        refiner_->forget(worker);
    }
}

}  // namespace cohort
