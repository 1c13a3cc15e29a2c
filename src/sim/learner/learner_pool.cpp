#include "sim/learner/learner_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"

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

std::shared_ptr<LearnerEngines> make_engines(const Graph& graph, int threads) {
    auto engines = std::make_shared<LearnerEngines>();
    for (int i = 0; i < threads; ++i) {
        engines->push_back(std::make_unique<LearnerEngine>(graph));
    }
    return engines;
}

LearnerThreads::LearnerThreads(int threads) {
    try {
        for (int i = 0; i < threads; ++i) {
            threads_.emplace_back([this, i] { work(static_cast<std::size_t>(i)); });
        }
    } catch (const std::system_error& error) {
        join();
        fail<DeviceError>({.where = "learner threads",
                           .what = "a thread could not be started: " + error.code().message(),
                           .expected = std::to_string(threads),
                           .hint = "fewer threads, or higher limits (ulimit -u, ulimit -v)"});
    }
}

LearnerThreads::~LearnerThreads() {
    join();
}

void LearnerThreads::join() noexcept {
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

void LearnerThreads::work(std::size_t thread) {
    std::unique_lock lock(mutex_);
    while (true) {
        queued_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_) {
            return;
        }
        const Queued next = std::move(queue_.front());
        queue_.pop_front();
        next.pool->run(next.task, thread, lock);
    }
}

LearnerPool::LearnerPool(const Graph& graph, int threads)
    : LearnerPool(std::make_shared<LearnerThreads>(threads), make_engines(graph, threads)) {
}

LearnerPool::LearnerPool(std::shared_ptr<LearnerThreads> threads,
                         std::shared_ptr<LearnerEngines> engines)
    : threads_(std::move(threads)), engines_(std::move(engines)) {
    const std::lock_guard lock(threads_->mutex_);
    number_ = ++threads_->pools_;
}

LearnerPool::~LearnerPool() {
    std::unique_lock lock(threads_->mutex_);
    ending_ = true;
    std::erase_if(threads_->queue_, [this](const auto& queued) { return queued.pool == this; });
    threads_->finished_.wait(lock, [this] { return running_ == 0; });
}

void LearnerPool::submit(const Task& task, int times, bool first) {
    {
        const std::lock_guard lock(threads_->mutex_);
        if (ending_) {
            return;
        }
        auto& queue = threads_->queue_;
        queue.insert(first ? queue.begin() : queue.end(), static_cast<std::size_t>(times),
                     {.task = task, .pool = this});
    }
    for (int i = 0; i < times; ++i) {
        threads_->queued_.notify_one();
    }
}

void LearnerPool::drop(const Task& task) {
    const std::lock_guard lock(threads_->mutex_);
    erase(*task);
}

void LearnerPool::wait(const Task& task) {
    std::unique_lock lock(threads_->mutex_);
    if (!task->finished_) {
        // What is waited for goes first; its order among its own does not matter.
        std::stable_partition(threads_->queue_.begin(), threads_->queue_.end(),
                              [&task](const auto& queued) { return queued.task == task; });
    }
    threads_->finished_.wait(lock, [&task] { return task->finished_ && task->running_ == 0; });
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
        const std::lock_guard lock(threads_->mutex_);
        if (done || error) {
            task->finished_ = true;
            task->error_ = error;
            erase(*task);
        }
    }
    wait(task);
}

double LearnerPool::core_s() const {
    const std::lock_guard lock(threads_->mutex_);
    return core_s_;
}

void LearnerPool::run(const Task& task, std::size_t thread, std::unique_lock<std::mutex>& lock) {
    ++task->running_;
    ++running_;
    lock.unlock();
    LearnerEngine& engine = *(*engines_)[thread];
    if (std::exchange(engine.pool, number_) != number_) {
        engine.loaded = 0;
    }
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
    --running_;
    if (error && !task->error_) {
        task->error_ = error;
    }
    if (done || error) {
        task->finished_ = true;
        erase(*task);
    }
    if ((ending_ && running_ == 0) || (task->finished_ && task->running_ == 0)) {
        threads_->finished_.notify_all();
    }
}

std::shared_ptr<const SampleMemory> LearnerResources::samples(const std::string& data,
                                                              const std::string& group,
                                                              const AugmentOptions& augment) {
    const bool drawn = augment.pad > 0 || augment.flip;
    auto& samples = samples_[fmt::format("{} {} {} {}\n{}", group, augment.pad, augment.flip,
                                         drawn ? augment.seed : 0, data)];
    if (samples == nullptr) {
        Hdf5Thread hdf5;
        const std::unique_ptr<SampleSource> set = open_dataset(data, group, hdf5);
        samples = std::make_shared<const SampleMemory>(*set, augment);
    }
    return samples;
}

std::shared_ptr<LearnerEngines> LearnerResources::engines(const std::string& name,
                                                          const Graph& graph) {
    auto& engines = engines_[name];
    if (engines == nullptr) {
        engines = make_engines(graph, threads_->size());
    }
    return engines;
}

BatchView SampleBatch::part(std::int64_t begin, std::int64_t end) const noexcept {
    const auto at = [&](const auto& values) {
        return values.data() + begin * (static_cast<std::int64_t>(values.size()) / size());
    };
    return {.samples = at(samples),
            .labels = at(labels),
            .sample_ids = at(ids),
            .size = end - begin,
            .epoch = epoch,
            .targets = at(targets),
            .tokens = at(tokens)};
}

SampleMemory::SampleMemory(SampleSource& source, const AugmentOptions& augment)
    : info_(source.info()), transform_(make_transform(info_, augment)) {
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
    const std::size_t values = ids.size() * static_cast<std::size_t>(elements);
    batch.labels.resize(ids.size() * static_cast<std::size_t>(info_.positions()));
    const auto targets = static_cast<std::size_t>(info_.targets);
    batch.targets.resize(ids.size() * targets);
    batch.samples.resize(transform_ ? values : 0);
    batch.tokens.resize(transform_ ? 0 : values);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const RawChunk& chunk = chunks_[static_cast<std::size_t>(ids[i] / info_.chunk_samples)];
        const auto within = static_cast<std::size_t>(ids[i] - chunk.first_sample);
        const std::byte* stored = chunk.data.data() + within * info_.sample_bytes();
        const std::int64_t to = static_cast<std::int64_t>(i) * elements;
        if (transform_) {
            transform_->apply(stored, ids[i], epoch, batch.samples.data() + to);
            if (targets > 0) {
                standardise_targets(chunk.targets.data() + within * targets, info_,
                                    batch.targets.data() + i * targets);
            } else {
                batch.labels[i] = chunk.labels[within];
            }
        } else {
            split_window(stored, info_.type, elements, batch.tokens.data() + to,
                         batch.labels.data() + to);
        }
    }
}

}  // namespace cohort
