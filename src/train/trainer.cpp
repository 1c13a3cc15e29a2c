#include "cohort/train/trainer.hpp"

#include "run_folder.hpp"
#include "training_run.hpp"

namespace cohort {

Trainer::Trainer(const TrainOptions& options, const TrainEnvironment& environment) {
    check_options(options, environment.world_size);
    check_run_folder(options);
    run_ = std::make_unique<Run>(options, environment);
}

Trainer::~Trainer() = default;

const Graph& Trainer::graph() const noexcept {
    return run_->parts().replica.graph();
}

const Device& Trainer::device() const noexcept {
    return *run_->parts().device;
}

const SampleSetInfo& Trainer::train_info() const noexcept {
    return run_->parts().train_set->info();
}

const SampleSetInfo& Trainer::test_info() const noexcept {
    return run_->parts().test_set->info();
}

std::int64_t Trainer::budget_samples() const noexcept {
    return run_->budget_samples();
}

TrainSummary Trainer::run() {
    return run_->run();
}

}  // namespace cohort
