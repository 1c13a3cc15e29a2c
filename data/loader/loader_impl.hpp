#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cohort/data/loader.hpp"
#include "data/loader/loader_batch.hpp"
#include "data/loader/loader_cache.hpp"

namespace cohort {

/// The loader's queue and threads. A lease becomes a job, which goes
///   kQueued -(reader: all its chunks are in memory)-> kLoaded -(a worker takes it)-> kPreparing
///   -> kDone -(next)-> handed out; an error leads straight to kDone.
/// Only the first `prefetch` jobs are worked on, which bounds memory. One mutex guards the queue
/// and the state of jobs; chunks are read and samples transformed without it.
class Loader::Impl {
public:
    Impl(std::shared_ptr<SampleSource> source, const LoaderOptions& options);
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();

    [[nodiscard]] const SampleSetInfo& info() const noexcept { return source_->info(); }
    [[nodiscard]] int prefetch() const noexcept { return options_.prefetch; }
    void submit(Lease lease);
    [[nodiscard]] std::optional<LoadedBatch> next(const std::function<bool()>& give_up);
    std::vector<Lease> discard_submitted();
    void stop() noexcept;

private:
    enum class State { kQueued, kLoaded, kPreparing, kDone };
    struct Job {
        Lease lease;
        std::vector<std::int64_t> chunk_ids;                  // distinct, increasing
        std::vector<std::shared_ptr<const RawChunk>> chunks;  // same order
        State state = State::kQueued;
        bool discarded = false;
        std::unique_ptr<LoadedBatch::Content> content;
        std::exception_ptr error;
    };

    /// Waits until next() has something to return; false when it gave up.
    bool wait_for_batch(std::unique_lock<std::mutex>& lock, const std::function<bool()>& give_up);
    /// What the first batch waits for.
    [[nodiscard]] std::string missing() const;
    void start_threads();
    void join() noexcept;
    void run_reader();
    void run_worker();
    /// The first job in reach that is in `state`, or nullptr.
    [[nodiscard]] std::shared_ptr<Job> find_job(State state) const;
    void load(Job& job, std::unique_lock<std::mutex>& lock);
    void read_one_ahead(std::unique_lock<std::mutex>& lock);
    void prepare(Job& job, std::unique_lock<std::mutex>& lock);

    std::shared_ptr<SampleSource> source_;
    LoaderOptions options_;
    BatchBuilder builder_;

    std::mutex mutex_;
    std::condition_variable reader_wake_;
    std::condition_variable worker_wake_;
    std::condition_variable next_wake_;
    std::deque<std::shared_ptr<Job>> jobs_;
    bool stopped_ = false;
    std::int64_t reading_ = -1;  ///< the chunk that the reader waits for

    ChunkReader chunks_;  ///< the reader's own
    std::vector<std::thread> threads_;
};

}  // namespace cohort
