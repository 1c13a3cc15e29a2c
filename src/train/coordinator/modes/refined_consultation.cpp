#include "train/coordinator/modes/refined_consultation.hpp"

#include <utility>

namespace cohort {

RefinedConsultation::RefinedConsultation(TrainingSession& session,
                                         std::shared_ptr<const LstmModel> model)
    : ModeConsultation(session), model_(std::move(model)) {
    keep_forecasts();
}

void RefinedConsultation::keep_forecasts() {
    ModeConsultation::keep_forecasts();
    LoadMonitor* const load = session().load();
    if (load == nullptr || !load->predicts() || !model_) {
        return;
    }
    if (!refiner_) {
        const SessionOptions& options = session().options();
        refiner_ = std::make_unique<PredictorRefiner>(*model_, options.workers, options.batch);
    }
    if (const auto network = refiner_->take()) {
        load->renew(network);
    }
}

void RefinedConsultation::timed(const IterationRecord& record) {
    if (refiner_) {
        refiner_->add(record);
    }
}

void RefinedConsultation::worker_changed(int worker) {
    if (refiner_) {
        refiner_->forget(worker);
    }
    request();
}

}  // namespace cohort
