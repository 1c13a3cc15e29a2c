#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cohort/core/stored_samples.hpp"
#include "cohort/data/augment.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/data/order.hpp"
#include "cohort/data/sample_source.hpp"

namespace cohort {

class BatchBuilder;
class ChunkReader;

/// Gives at least `bytes` of host memory aligned to 64 bytes, freed with the last owner. A CUDA
/// run passes one that returns pinned memory. Called from loader threads. May throw.
using HostAllocator = std::function<std::shared_ptr<void>(std::size_t bytes)>;

/// Ordinary memory, 64-byte aligned.
[[nodiscard]] std::shared_ptr<void> allocate_aligned(std::size_t bytes);

struct LoaderOptions {
    AugmentOptions augment;
    int threads = 1;                    ///< threads that normalise and augment, >= 1
    int prefetch = 3;                   ///< batches prepared ahead of next(), >= 1
    std::optional<OrderOptions> order;  ///< order of future leases: the next window is read ahead
    std::size_t cache_bytes = 0;        ///< stored chunks kept; 0: two windows, or 64 MiB
    HostAllocator allocator = allocate_aligned;
    /// Samples of one byte per value stay as they are stored, for a device that crops and
    /// normalises them: LoadedBatch::stored() in place of samples().
    bool stored = false;
    double stall_limit_s = 30;  ///< a longer wait for a batch causes a warning
};

/// A batch that is ready to train on. Movable; its memory goes back to the loader's pool when it
/// is destroyed (which may be after the loader).
class LoadedBatch {
public:
    LoadedBatch(LoadedBatch&&) noexcept;
    LoadedBatch& operator=(LoadedBatch&&) noexcept;
    ~LoadedBatch();

    [[nodiscard]] const Lease& lease() const noexcept;
    [[nodiscard]] std::int64_t size() const noexcept { return lease().size(); }
    [[nodiscard]] std::uint32_t epoch() const noexcept { return lease().epoch; }
    /// Tells this batch from every other of the process; not 0.
    [[nodiscard]] std::uint64_t serial() const noexcept;
    // All in one block of memory from LoaderOptions::allocator, 64-byte aligned:
    /// [N, sample shape], normalised; empty for tokens and for samples as they are stored.
    [[nodiscard]] std::span<const float> samples() const noexcept;
    /// In the place of samples, see LoaderOptions::stored; else without values.
    [[nodiscard]] const StoredSamples& stored() const noexcept;
    /// [N,T], in the place of samples; empty for other samples.
    [[nodiscard]] std::span<const std::int32_t> tokens() const noexcept;
    /// [N], of tokens [N,T], same memory; empty beside targets.
    [[nodiscard]] std::span<const std::int32_t> labels() const noexcept;
    /// [N, info.targets], standardised, in the place of labels.
    [[nodiscard]] std::span<const float> targets() const noexcept;
    /// [N], = lease().samples.
    [[nodiscard]] std::span<const std::int64_t> sample_ids() const noexcept;

private:
    friend class Loader;
    friend class BatchBuilder;
    struct Content;
    explicit LoadedBatch(std::unique_ptr<Content> content) noexcept;
    std::unique_ptr<Content> content_;
};

/// Turns leases into batches ahead of their use: one thread reads whole chunks (those of submitted
/// leases first, then the next shuffle window), `threads` threads augment and normalise, and
/// next() hands out batches in the order of submission. Waiting sleeps.
///
/// A lease becomes a job, which goes
///   kQueued -(reader: all its chunks are in memory)-> kLoaded -(a worker takes it)-> kPreparing
///   -> kDone -(next)-> handed out; an error leads straight to kDone.
/// Only the first `prefetch` jobs are worked on, which bounds memory. One mutex guards the queue
/// and the state of jobs; chunks are read and samples transformed without it.
class Loader {
public:
    /// Errors: UsageError and ShapeError for options that do not fit the set, DeviceError when the
    /// system refuses a thread.
    Loader(std::shared_ptr<SampleSource> source, const LoaderOptions& options);
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;
    /// Waits only for a chunk read in progress.
    ~Loader();

    [[nodiscard]] const SampleSetInfo& info() const noexcept { return source_->info(); }
    /// LoaderOptions::prefetch: how many leases to keep submitted.
    [[nodiscard]] int prefetch() const noexcept { return options_.prefetch; }

    /// Queues a lease; never blocks. Thread safe. Errors: UsageError for an empty lease or a sample
    /// id outside the set.
    void submit(Lease lease);
    /// The batch of the oldest submitted lease; blocks until it is ready and warns, naming what it
    /// waits for, each time stall_limit_s has passed. std::nullopt when no submitted lease is left,
    /// stop() was called, or `give_up`, called a few times a second during the wait, returned true;
    /// the leases then stay submitted. Errors: those of reading or preparing that lease; the loader
    /// then drops the lease and continues with later ones.
    [[nodiscard]] std::optional<LoadedBatch> next(const std::function<bool()>& give_up = {});
    /// The batch that next() would return, if it is ready; it stays with the loader, at the longest
    /// until discard_submitted(). Thread of next() only.
    [[nodiscard]] const LoadedBatch* peek();
    /// Takes back every submitted lease that next() has not handed out.
    std::vector<Lease> discard_submitted();
    /// Ends waiting calls of next() and all work; for another thread or before destruction.
    void stop() noexcept;

private:
    enum class State { kQueued, kLoaded, kPreparing, kDone };
    struct Job;

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
    std::unique_ptr<BatchBuilder> builder_;
    std::mutex mutex_;
    std::condition_variable reader_wake_;
    std::condition_variable worker_wake_;
    std::condition_variable next_wake_;
    std::deque<std::shared_ptr<Job>> jobs_;
    bool stopped_ = false;
    std::int64_t reading_ = -1;            ///< the chunk that the reader waits for
    std::unique_ptr<ChunkReader> chunks_;  ///< the reader's own
    std::vector<std::thread> threads_;
};

/// Runs `use` on batches of `batch_size` that cover all samples of the loader's set in stored order
/// (the last may be short); for evaluation, with a loader without augmentation and without other
/// leases. False when the loader was stopped before the end or `give_up`, called during long waits,
/// returned true. Errors: those of Loader::next and of `use`; the loader is then empty and usable.
[[nodiscard]] bool for_each_batch(Loader& loader, std::int64_t batch_size,
                                  const std::function<void(const LoadedBatch&)>& use,
                                  const std::function<bool()>& give_up = {});
/// As above for the samples [begin, end) only.
/// Errors: also UsageError for a range that is not within the set.
[[nodiscard]] bool for_each_batch(Loader& loader, std::int64_t begin, std::int64_t end,
                                  std::int64_t batch_size,
                                  const std::function<void(const LoadedBatch&)>& use,
                                  const std::function<bool()>& give_up = {});

}  // namespace cohort
