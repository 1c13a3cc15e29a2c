#include "train/coordinator/modes/predictor_refinement.hpp"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr double kLr = 3e-4;          ///< of Adam
constexpr std::size_t kWindows = 8;   ///< per step
constexpr std::size_t kJudging = 16;  ///< windows of a judgement, at most
constexpr double kBetter = 0.98;      ///< of the error: takes over
constexpr double kAstray = 1.25;      ///< of the error: begins again

}  // namespace

PredictorRefinement::PredictorRefinement(LstmModel model, int workers, std::int64_t batch)
    : used_(std::make_shared<const LstmModel>(std::move(model))),
      batch_(batch),
      depth_(static_cast<std::size_t>(std::clamp(65536 / workers, 256, 1024))),
      workers_(static_cast<std::size_t>(workers)),
      trainer_(1),
      judge_(1),
      rng_(1, RngPurpose::kPredictor, 0, 2) {
    trainer_.load(*used_);
    judge_.load(*used_);
}

void PredictorRefinement::add(const IterationRecord& record) {
    const double own_s = record.own_s(batch_);
    if (!(own_s > 0)) {
        return;
    }
    Worker& worker = workers_.at(static_cast<std::size_t>(record.worker));
    std::vector<LstmFeatures>& features = worker.features;
    if (features.size() == depth_ + depth_ / 2) {
        features.erase(features.begin(),
                       features.begin() + static_cast<std::ptrdiff_t>(depth_ / 2));
    }
    features.push_back(worker.scale.add(record.use, own_s));
    ++worker.fresh;
}

void PredictorRefinement::forget(int worker) {
    workers_.at(static_cast<std::size_t>(worker)) = {};
}

bool PredictorRefinement::work() {
    if (steps_left_ > 0) {
        step();
        if (--steps_left_ == 0) {
            for (Worker& worker : workers_) {
                worker.fresh = 0;  // what came meanwhile may have been learned from
            }
        }
        return true;
    }
    if (judgement_due()) {
        judge();
        steps_left_ = kSteps;
        return true;
    }
    return false;
}

/// Half of the workers that have a window have fresh records enough.
bool PredictorRefinement::judgement_due() const {
    std::size_t ready = 0;
    std::size_t fresh = 0;
    for (const Worker& worker : workers_) {
        ready += worker.ready() ? 1U : 0U;
        fresh += worker.ready() && worker.fresh >= kFresh ? 1U : 0U;
    }
    return ready > 0 && 2 * fresh >= ready;
}

void PredictorRefinement::judge() {
    if (!trained_) {
        return;
    }
    std::vector<PredictorWindow> windows;
    for (const Worker& worker : workers_) {
        if (worker.ready() && worker.fresh >= kFresh) {
            windows.push_back({&worker.features.back() - LstmModel::kWindow});
        }
    }
    const std::size_t judging = std::min(windows.size(), kJudging);
    for (std::size_t i = 0; i < judging; ++i) {  // drawn without return
        const auto left = static_cast<std::uint32_t>(windows.size() - i);
        std::swap(windows[i], windows[i + rng_.next_below(left)]);
    }
    windows.resize(judging);
    constexpr std::int64_t kFrom = LstmModel::kWindow - kFresh;
    const double error = trainer_.error(windows, kFrom).all;
    const double used_error = judge_.error(windows, kFrom).all;
    if (error < kBetter * used_error) {
        used_ = std::make_shared<const LstmModel>(trainer_.model());
        judge_.load(*used_);
        trained_ = false;
    } else if (!(error < kAstray * used_error)) {
        trainer_.load(*used_);
        trained_ = false;
    }
}

void PredictorRefinement::step() {
    std::vector<const Worker*> ready;
    for (const Worker& worker : workers_) {
        if (worker.ready()) {
            ready.push_back(&worker);
        }
    }
    if (ready.empty()) {
        return;
    }
    std::vector<PredictorWindow> windows;
    for (std::size_t i = 0; i < kWindows; ++i) {
        const Worker& worker = *ready[rng_.next_below(static_cast<std::uint32_t>(ready.size()))];
        const auto starts = static_cast<std::uint32_t>(worker.features.size() - LstmModel::kWindow);
        windows.push_back({worker.features.data() + rng_.next_below(starts)});
    }
    (void)trainer_.step(windows, kLr);
    ++steps_;
    trained_ = true;
}

}  // namespace cohort
