#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cohort/data/augment.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/replica.hpp"

namespace cohort {

/// A mini-batch with its memory, which is used again.
struct SampleBatch {
    std::vector<float> samples;        ///< [N, sample shape]; empty for tokens
    std::vector<std::int32_t> tokens;  ///< [N,T]; empty for other samples
    std::vector<std::int32_t> labels;  ///< [N] or [N,T]; empty beside targets
    std::vector<float> targets;        ///< [N, targets], standardised; empty beside labels
    std::vector<std::int64_t> ids;
    std::uint32_t epoch = 0;

    [[nodiscard]] std::int64_t size() const noexcept {
        return static_cast<std::int64_t>(ids.size());
    }
    [[nodiscard]] BatchView view() const noexcept { return part(0, size()); }
    /// Samples [begin, end) of it.
    [[nodiscard]] BatchView part(std::int64_t begin, std::int64_t end) const noexcept;
};

/// All samples of a set as they are stored, in memory; mini-batches are what Loader makes of the
/// same samples. Immutable, so thread safe.
class SampleMemory {
public:
    /// Reads the whole set. Errors: FileError, ShapeError, UsageError.
    SampleMemory(SampleSource& source, const AugmentOptions& augment);

    [[nodiscard]] const SampleSetInfo& info() const noexcept { return info_; }
    /// Fills in samples and labels of `ids`, normalised and augmented for `epoch`.
    void load(std::span<const std::int64_t> ids, std::uint32_t epoch, SampleBatch& batch) const;

private:
    SampleSetInfo info_;
    std::optional<SampleTransform> transform_;  ///< none of tokens
    std::vector<RawChunk> chunks_;
};

/// What a computing thread works with.
struct LearnerEngine {
    explicit LearnerEngine(const Graph& graph);

    /// Parameters and state into the replica, unless they are there: `values` is [parameters,
    /// state] and `id` tells its contents apart from all others of the pool; 0: not known.
    void load(std::uint64_t id, const float* values);

    std::unique_ptr<Device> device;
    Replica replica;
    std::uint64_t loaded = 0;  ///< id of the parameters in the replica; 0: none that is known
    std::uint64_t pool = 0;    ///< that `loaded` is an id of
    SampleBatch batch;
};

/// Engines for one network, one per thread.
using LearnerEngines = std::vector<std::unique_ptr<LearnerEngine>>;
/// Errors: DeviceError when memory is short.
[[nodiscard]] std::shared_ptr<LearnerEngines> make_engines(const Graph& graph, int threads);

/// Something to compute. It may be queued several times at once, to be worked on by several
/// threads.
class LearnerTask {
public:
    LearnerTask() = default;
    LearnerTask(const LearnerTask&) = delete;
    LearnerTask& operator=(const LearnerTask&) = delete;
    virtual ~LearnerTask() = default;
    /// A part of it. @return true when nothing is left to do
    virtual bool run(LearnerEngine& engine) = 0;

private:
    friend class LearnerPool;
    // The pool's, under its lock.
    int running_ = 0;
    bool finished_ = false;
    std::exception_ptr error_;
};

class LearnerPool;

/// Threads that compute, each on one core, for the pools that share them.
class LearnerThreads {
public:
    /// Errors: DeviceError when the system refuses a thread.
    explicit LearnerThreads(int threads);
    LearnerThreads(const LearnerThreads&) = delete;
    LearnerThreads& operator=(const LearnerThreads&) = delete;
    ~LearnerThreads();

    [[nodiscard]] int size() const noexcept { return static_cast<int>(threads_.size()); }

private:
    friend class LearnerPool;
    struct Queued {
        std::shared_ptr<LearnerTask> task;
        LearnerPool* pool = nullptr;
    };

    void work(std::size_t thread);
    void join() noexcept;

    std::mutex mutex_;
    std::condition_variable queued_;
    std::condition_variable finished_;
    std::deque<Queued> queue_;
    bool stop_ = false;
    std::uint64_t pools_ = 0;  ///< made so far
    std::vector<std::thread> threads_;
};

/// The tasks of one user of threads. They are computed in the order of submission, all pools' in
/// one queue, except that work that is waited for goes first. Thread safe.
class LearnerPool {
public:
    using Task = std::shared_ptr<LearnerTask>;

    /// With threads and engines of its own. Errors: as LearnerThreads and make_engines.
    LearnerPool(const Graph& graph, int threads);
    /// @param engines  as many as there are threads
    LearnerPool(std::shared_ptr<LearnerThreads> threads, std::shared_ptr<LearnerEngines> engines);
    LearnerPool(const LearnerPool&) = delete;
    LearnerPool& operator=(const LearnerPool&) = delete;
    /// What is queued is not computed, what is being computed is waited for.
    ~LearnerPool();

    [[nodiscard]] int threads() const noexcept { return threads_->size(); }
    /// Queues `times` parts of it, behind all others or (`first`) before them.
    void submit(const Task& task, int times = 1, bool first = false);
    /// What of it is queued is not computed.
    void drop(const Task& task);
    /// Sleeps until it is finished and no thread works on it. Errors: what it threw.
    void wait(const Task& task);
    /// Calls part(i, engine) once for each 0 <= i < parts, before all that is queued, and returns
    /// when all are done. With `help` the caller takes part, with an engine of null.
    /// Errors: what a part threw; others may not be done then.
    void run_parts(int parts, const std::function<void(int, LearnerEngine*)>& part, bool help);
    /// Core seconds of all threads so far, in tasks that are over.
    [[nodiscard]] double core_s() const;

private:
    friend class LearnerThreads;
    void run(const Task& task, std::size_t thread, std::unique_lock<std::mutex>& lock);
    void erase(const LearnerTask& task) {
        std::erase_if(threads_->queue_,
                      [&task](const auto& queued) { return queued.task.get() == &task; });
    }

    std::shared_ptr<LearnerThreads> threads_;
    std::shared_ptr<LearnerEngines> engines_;
    std::uint64_t number_ = 0;  ///< tells the pools of the threads apart
    // Under the threads' lock.
    bool ending_ = false;
    int running_ = 0;  ///< threads that work on its tasks
    double core_s_ = 0;
};

/// What the learners of many jobs share: threads, samples in memory, engines. One thread calls it.
class LearnerResources {
public:
    /// Errors: as LearnerThreads.
    explicit LearnerResources(int threads) : threads_(std::make_shared<LearnerThreads>(threads)) {}

    [[nodiscard]] const std::shared_ptr<LearnerThreads>& threads() const noexcept {
        return threads_;
    }
    /// The samples of a group of a data set, read on the first call. Errors: as SampleMemory.
    [[nodiscard]] std::shared_ptr<const SampleMemory> samples(const std::string& data,
                                                              const std::string& group,
                                                              const AugmentOptions& augment);
    /// Engines for a network, made on the first call. @param name  the same for the same network
    [[nodiscard]] std::shared_ptr<LearnerEngines> engines(const std::string& name,
                                                          const Graph& graph);

private:
    std::shared_ptr<LearnerThreads> threads_;
    std::map<std::string, std::shared_ptr<const SampleMemory>> samples_;
    std::map<std::string, std::shared_ptr<LearnerEngines>> engines_;
};

}  // namespace cohort
