#include "sim/learner/learner_pool.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Parts that threads take in turn.
class Parts final : public LearnerTask {
public:
    using Part = std::function<void(int, LearnerEngine*)>;

    Parts(int parts, const Part& part) : parts_(parts), part_(part) {}
    bool run(LearnerEngine& engine) override { return work(&engine); }
    bool work(LearnerEngine* engine) {
        for (int i = next_++; i < parts_; i = next_++) {
            part_(i, engine);
            if (++done_ == parts_) {
                return true;
            }
        }
        return false;
    }

private:
    int parts_;
    const Part& part_;
    std::atomic<int> next_{0};
    std::atomic<int> done_{0};
};

}  // namespace

// The choices of kernels do not depend on measurements: runs repeat themselves.
LearnerEngine::LearnerEngine(const Graph& graph)
    : device(make_cpu_device(1)), replica(graph, *device, {.deterministic = true}) {
}

void LearnerEngine::load(std::uint64_t id, const float* values) {
    if (id == 0 || id != loaded) {
        const std::span<float> parameters = replica.parameters();
        const std::span<float> state = replica.state();
        std::copy_n(values, parameters.size(), parameters.begin());
        std::copy_n(values + parameters.size(), state.size(), state.begin());
        loaded = id;
    }
}

LearnerPool::LearnerPool(const Graph& graph, int threads) {
    for (int i = 0; i < threads; ++i) {
        engines_.push_back(std::make_unique<LearnerEngine>(graph));
    }
    try {
        for (const auto& engine : engines_) {
            threads_.emplace_back([this, &engine = *engine] { work(engine); });
        }
    } catch (const std::system_error& error) {
        join();
        fail<DeviceError>({.where = "learner threads",
                           .what = "a thread could not be started: " + error.code().message(),
                           .expected = std::to_string(threads),
                           .hint = "fewer threads, or higher limits (ulimit -u, ulimit -v)"});
    }
}

LearnerPool::~LearnerPool() {
    join();
}

void LearnerPool::join() noexcept {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        queue_.clear();
    }
    queued_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void LearnerPool::submit(const Task& task, int times, bool first) {
    {
        const std::lock_guard lock(mutex_);
        queue_.insert(first ? queue_.begin() : queue_.end(), static_cast<std::size_t>(times), task);
    }
    for (int i = 0; i < times; ++i) {
        queued_.notify_one();
    }
}

void LearnerPool::drop(const Task& task) {
    const std::lock_guard lock(mutex_);
    erase(*task);
}

void LearnerPool::wait(const Task& task) {
    std::unique_lock lock(mutex_);
    if (!task->finished_) {
        // What is waited for goes first; its order among its own does not matter.
        std::stable_partition(queue_.begin(), queue_.end(),
                              [&task](const Task& one) { return one == task; });
    }
    finished_.wait(lock, [&task] { return task->finished_ && task->running_ == 0; });
    if (task->error_) {
        std::rethrow_exception(task->error_);
    }
}

void LearnerPool::run_parts(int parts, const std::function<void(int, LearnerEngine*)>& part,
                            bool help) {
    if (help && (parts == 1 || threads() == 1)) {
        for (int i = 0; i < parts; ++i) {
            part(i, nullptr);
        }
        return;
    }
    const auto task = std::make_shared<Parts>(parts, part);
    submit(task, std::min(threads(), help ? parts - 1 : parts), true);
    if (help) {
        bool done = false;
        std::exception_ptr error;
        try {
            done = task->work(nullptr);
        } catch (...) {
            error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        if (done || error) {
            task->finished_ = true;
            task->error_ = error;
            erase(*task);
        }
    }
    wait(task);
}

double LearnerPool::core_s() const {
    const std::lock_guard lock(mutex_);
    return core_s_;
}

void LearnerPool::work(LearnerEngine& engine) {
    std::unique_lock lock(mutex_);
    while (true) {
        queued_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_) {
            return;
        }
        const Task task = std::move(queue_.front());
        queue_.pop_front();
        run(task, engine, lock);
    }
}

void LearnerPool::run(const Task& task, LearnerEngine& engine, std::unique_lock<std::mutex>& lock) {
    ++task->running_;
    lock.unlock();
    const ThreadCpuClock clock;
    const Clock::Seconds begin = clock.now();
    bool done = false;
    std::exception_ptr error;
    try {
        done = task->run(engine);
    } catch (...) {
        error = std::current_exception();
        engine.loaded = 0;
    }
    const double took = (clock.now() - begin).count();
    lock.lock();
    core_s_ += took;
    --task->running_;
    if (error && !task->error_) {
        task->error_ = error;
    }
    if (done || error) {
        task->finished_ = true;
        erase(*task);
    }
    if (task->finished_ && task->running_ == 0) {
        finished_.notify_all();
    }
}

BatchView SampleBatch::part(std::int64_t begin, std::int64_t end) const noexcept {
    const auto each = static_cast<std::int64_t>(samples.size()) / size();
    return {.samples = samples.data() + begin * each,
            .labels = labels.data() + begin,
            .sample_ids = ids.data() + begin,
            .size = end - begin,
            .epoch = epoch};
}

SampleMemory::SampleMemory(SampleSource& source, const AugmentOptions& augment)
    : info_(source.info()), transform_(info_, augment) {
    chunks_.reserve(static_cast<std::size_t>(info_.chunks()));
    for (std::int64_t chunk = 0; chunk < info_.chunks(); ++chunk) {
        chunks_.push_back(source.read_chunk(chunk));
    }
}

void SampleMemory::load(std::span<const std::int64_t> ids, std::uint32_t epoch,
                        SampleBatch& batch) const {
    const std::int64_t elements = info_.sample_elements();
    batch.ids.assign(ids.begin(), ids.end());
    batch.epoch = epoch;
    batch.labels.resize(ids.size());
    batch.samples.resize(ids.size() * static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const RawChunk& chunk = chunks_[static_cast<std::size_t>(ids[i] / info_.chunk_samples)];
        const auto within = static_cast<std::size_t>(ids[i] - chunk.first_sample);
        transform_.apply(chunk.data.data() + within * info_.sample_bytes(), ids[i], epoch,
                         batch.samples.data() + static_cast<std::int64_t>(i) * elements);
        batch.labels[i] = chunk.labels[within];
    }
}

}  // namespace cohort
