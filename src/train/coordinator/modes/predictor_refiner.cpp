#include "train/coordinator/modes/predictor_refiner.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "cohort/core/clock.hpp"
#include "core/failure_text.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"
#include "train/coordinator/modes/predictor_refinement.hpp"

namespace cohort {
namespace {

constexpr int kRefinerNiceness = 19;
constexpr std::size_t kMostItems = 16384;  ///< that wait; later ones are left out
constexpr Clock::Seconds kIdle{1};         ///< between looks for new records

}  // namespace

PredictorRefiner::PredictorRefiner(const LstmModel& model, int workers, std::int64_t batch,
                                   double share)
    : limit_(share), thread_([this, model, workers, batch] {
          try {
              run(model, workers, batch);
          } catch (const std::exception& error) {
              log_warn("the predictor's model is not refined any more: {}", failure_text(error));
          }
      }) {
}

PredictorRefiner::~PredictorRefiner() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void PredictorRefiner::add(const IterationRecord& record) {
    if (record.samples > 0) {
        leave(record);
    }
}

void PredictorRefiner::forget(int worker) {
    leave({.worker = worker, .samples = 0});
}

/// Without a wake-up: the thread looks by itself, and not often.
void PredictorRefiner::leave(const Item& item) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (items_.size() < kMostItems || item.samples == 0) {
        items_.push_back(item);
    }
}

std::shared_ptr<const LstmNetwork> PredictorRefiner::take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(renewed_, nullptr);
}

RefinerUse PredictorRefiner::use() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return use_;
}

bool PredictorRefiner::pause(std::unique_lock<std::mutex>& lock, Clock::Seconds time) {
    return !changed_.wait_for(lock, time, [this] { return stop_; });
}

void PredictorRefiner::run(LstmModel model, int workers, std::int64_t batch) {
    lower_thread_priority("the predictor's refiner", kRefinerNiceness);
    const ThreadCpuClock cpu;
    PredictorRefinement refinement(std::move(model), workers, batch);
    std::shared_ptr<const LstmModel> used = refinement.model();
    std::vector<Item> items;
    Clock::Seconds counted{0};
    Clock::Seconds rest{0};
    std::unique_lock<std::mutex> lock(mutex_);
    do {
        std::swap(items, items_);
        lock.unlock();
        for (const Item& item : items) {
            if (item.samples > 0) {
                refinement.add(item);
            } else {
                refinement.forget(item.worker);
            }
        }
        items.clear();
        const bool busy = refinement.work();
        std::shared_ptr<const LstmNetwork> renewed;
        if (refinement.model() != used) {
            used = refinement.model();
            renewed = std::make_shared<const LstmNetwork>(*used);
        }
        const Clock::Seconds now = cpu.now();
        const Clock::Seconds worked = now - std::exchange(counted, now);
        // As if all of it had been work: time taken by others shortens no pause.
        rest = limit_.pause_after(worked, worked);
        rest = busy ? rest : std::max(rest, kIdle);
        lock.lock();
        if (renewed) {
            renewed_ = std::move(renewed);
            ++use_.renewals;
        }
        use_.steps = refinement.steps();
        use_.cpu_s = now.count();
    } while (pause(lock, rest));
}

}  // namespace cohort
