#include "local_steps.hpp"

namespace cohort {

struct LocalSteps::Impl {};

LocalSteps::LocalSteps(WorkerContext& /*context*/, std::int64_t /*floats*/)
    : impl_(std::make_unique<Impl>()) {
}
LocalSteps::~LocalSteps() = default;

std::optional<LocalSteps::Result> LocalSteps::run(const LoadedBatch& /*batch*/,
                                                  const WorkOrder& /*work*/,
                                                  RoundExchange* /*group*/,
                                                  std::uint64_t /*group_round*/,
                                                  std::span<float> /*delta*/,
                                                  const std::function<bool()>& /*give_up*/) {
    return std::nullopt;
}
void LocalSteps::forget() {
}

}  // namespace cohort
