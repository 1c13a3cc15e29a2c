#include "python/module/step_exchange.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

/// Completes the batch statistics before the first range leaves: the forward passes are over then.
class StatisticsFirst final : public StepObserver {
public:
    StatisticsFirst(OfferedModel& model, StepObserver& inner) : model_(model), inner_(inner) {}

    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        if (!std::exchange(known_, true)) {
            const std::span<const float> before = model_.state();
            const std::span<const float> after = model_.live_state();
            const std::span<float> batch = model_.batch_state();
            constexpr auto kShare = static_cast<float>(kBatchNormMomentum);
            for (std::size_t i = 0; i < batch.size(); ++i) {
                batch[i] = before[i] + (after[i] - before[i]) / kShare;
            }
        }
        inner_.gradient_ready(begin, end);
    }
    bool should_interrupt() override { return inner_.should_interrupt(); }

private:
    OfferedModel& model_;
    StepObserver& inner_;
    bool known_ = false;
};

}  // namespace

std::optional<BatchResult> StepExchange::compute(OfferedStep step, StepObserver& inner) {
    const std::function<void()> nothing;
    AnnouncedRanges observer(inner, nothing);
    if (observer.should_interrupt()) {
        return std::nullopt;
    }
    const std::int64_t floats = step.model->graph().parameters().total();
    const bool trains = step.trains;
    const auto entry = std::make_shared<Entry>(Entry{.step = std::move(step)});
    std::unique_lock lock(mutex_);
    queue_.push_back(entry);
    changed_.notify_all();
    bool interrupted = false;
    try {
        for (;;) {
            changed_.wait(lock, [&] {
                const bool over = left_ || (closed_ && current_ != entry);
                return entry->announced || entry->result || over;
            });
            if (entry->announced) {
                const auto [begin, end] = *entry->announced;
                lock.unlock();
                interrupted = interrupted || observer.should_interrupt();
                if (!interrupted) {
                    observer.gradient_ready(begin, end);
                }
                lock.lock();
                entry->announced.reset();
                changed_.notify_all();
            } else if (entry->result) {
                return interrupted ? std::nullopt : entry->result;
            } else {
                break;
            }
        }
    } catch (...) {
        if (!lock.owns_lock()) {
            lock.lock();
        }
        withdraw(entry);
        throw;
    }
    withdraw(entry);
    lock.unlock();
    if (trains && !interrupted) {
        observer.announce_rest(floats);
    }
    return BatchResult{.loss_sum = std::numeric_limits<double>::quiet_NaN()};
}

/// With the lock.
void StepExchange::withdraw(const std::shared_ptr<Entry>& entry) {
    entry->withdrawn = true;
    entry->announced.reset();
    std::erase(queue_, entry);
    changed_.notify_all();
}

void StepExchange::close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

bool StepExchange::closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
}

const OfferedStep* StepExchange::next(Clock::Seconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) {
        return nullptr;
    }
    current_ = queue_.front();
    queue_.pop_front();
    return &current_->step;
}

void StepExchange::announce(std::int64_t begin, std::int64_t end) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Entry> entry = current_;
    if (entry == nullptr || entry->withdrawn) {
        return;
    }
    changed_.wait(lock, [&] { return !entry->announced || entry->withdrawn; });
    entry->announced = {begin, end};
    changed_.notify_all();
    changed_.wait(lock, [&] { return !entry->announced || entry->withdrawn; });
}

void StepExchange::finish(const BatchResult& result) {
    const std::scoped_lock lock(mutex_);
    if (current_ != nullptr) {
        current_->result = result;
        current_.reset();
        changed_.notify_all();
    }
}

void StepExchange::leave() {
    const std::scoped_lock lock(mutex_);
    left_ = true;
    current_.reset();
    changed_.notify_all();
}

OfferedModel::OfferedModel(Graph graph, Device& device, StepExchange& exchange, int number)
    : TrainableModel(std::move(graph), device),
      exchange_(exchange),
      number_(number),
      live_state_(state().size()) {
}

OfferedStep OfferedModel::offer(const BatchView& batch, bool trains) {
    std::ranges::copy(state(), live_state_.begin());
    return {.model = this,
            .trains = trains,
            .ids = {batch.sample_ids, batch.sample_ids + batch.size},
            .epoch = batch.epoch};
}

std::optional<BatchResult> OfferedModel::train_step(const BatchView& batch, std::uint64_t /*seed*/,
                                                    StepObserver& observer) {
    std::ranges::fill(gradients(), 0.0F);
    StatisticsFirst with_statistics(*this, observer);
    auto result = exchange_.compute(offer(batch, true), with_statistics);
    if (result) {
        result->samples = batch.size;
    }
    return result;
}

BatchResult OfferedModel::evaluate(const BatchView& batch) {
    StepObserver nobody;
    BatchResult result = *exchange_.compute(offer(batch, false), nobody);
    result.samples = batch.size;
    return result;
}

}  // namespace cohort
