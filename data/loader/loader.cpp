#include "cohort/data/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "data/loader/loader_batch.hpp"
#include "data/loader/loader_cache.hpp"

namespace cohort {
namespace {

void check_counts(const LoaderOptions& options) {
    if (options.stall_limit_s <= 0) {
        fail<UsageError>({.where = "loader",
                          .what = "no time to wait for a batch",
                          .expected = "a stall limit above 0 s",
                          .got = fmt::format("{}", options.stall_limit_s)});
    }
    if (options.threads < 1 || options.prefetch < 1) {
        fail<UsageError>(
            {.where = "loader",
             .what = "no thread or no batch to prepare",
             .expected = "at least 1 thread and 1 batch of prefetch",
             .got = fmt::format("{} threads, prefetch {}", options.threads, options.prefetch)});
    }
}

void check_evaluation(const SampleSetInfo& info, std::int64_t begin, std::int64_t end,
                      std::int64_t batch_size) {
    if (batch_size < 1) {
        fail<UsageError>({.where = "evaluation",
                          .what = "empty batches",
                          .expected = "a batch of at least 1",
                          .got = fmt::format("{}", batch_size)});
    }
    if (begin < 0 || begin > end || end > info.samples) {
        fail<UsageError>({.where = "evaluation",
                          .what = "a range that is not within the set",
                          .expected = fmt::format("within 0..{}", info.samples),
                          .got = fmt::format("{}..{}", begin, end)});
    }
}

std::vector<std::int64_t> chunks_of(const Lease& lease, std::int64_t chunk_samples) {
    std::vector<std::int64_t> chunks;
    chunks.reserve(lease.samples.size());
    for (const std::int64_t sample : lease.samples) {
        chunks.push_back(sample / chunk_samples);
    }
    std::ranges::sort(chunks);
    chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
    return chunks;
}

}  // namespace

Loader::Loader(std::shared_ptr<SampleSource> source, const LoaderOptions& options)
    : source_(std::move(source)),
      options_(options),
      builder_(std::make_unique<BatchBuilder>(source_->info(), options)),
      chunks_(std::make_unique<ChunkReader>(source_, options)) {
    check_counts(options);
    try {
        start_threads();
    } catch (const std::system_error& error) {
        join();
        fail<DeviceError>({.where = "loader threads",
                           .what = "a thread could not be started: " + error.code().message(),
                           .expected = std::to_string(options_.threads + 1),
                           .got = std::to_string(threads_.size()),
                           .hint = "fewer threads, or higher limits (ulimit -u, ulimit -v)"});
    } catch (...) {
        join();
        throw;
    }
}

Loader::~Loader() {
    join();
}

void Loader::start_threads() {
    threads_.emplace_back([this] { run_reader(); });
    for (int i = 0; i < options_.threads; ++i) {
        threads_.emplace_back([this] { run_worker(); });
    }
}

void Loader::join() noexcept {
    stop();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void Loader::submit(Lease lease) {
    const auto outside = std::ranges::find_if(
        lease.samples, [&](auto id) { return id < 0 || id >= info().samples; });
    if (lease.samples.empty() || outside != lease.samples.end()) {
        fail<UsageError>({.where = fmt::format("lease {}", lease.id),
                          .what = "not a list of samples of this set",
                          .expected = fmt::format("ids within 0..{}", info().samples - 1),
                          .got = lease.samples.empty() ? "no sample" : std::to_string(*outside)});
    }
    auto job = std::make_shared<Job>();
    job->chunk_ids = chunks_of(lease, info().chunk_samples);
    job->lease = std::move(lease);
    {
        const std::scoped_lock lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    reader_wake_.notify_one();
}

std::string Loader::missing() const {
    if (jobs_.front()->state != State::kQueued) {
        return "the samples are being prepared";
    }
    return reading_ < 0 ? "its chunks are about to be read"
                        : fmt::format("chunk {} of {} is being read", reading_, source_->where());
}

bool Loader::wait_for_batch(std::unique_lock<std::mutex>& lock,
                            const std::function<bool()>& give_up) {
    constexpr double kAskSeconds = 0.25;
    const Clock::Seconds pause(std::min(kAskSeconds, options_.stall_limit_s));
    const SteadyClock clock;
    const Clock::Seconds start = clock.now();
    double limit = options_.stall_limit_s;
    const auto ready = [&] {
        return stopped_ || jobs_.empty() || jobs_.front()->state == State::kDone;
    };
    while (!next_wake_.wait_for(lock, pause, ready)) {
        const double waited = (clock.now() - start).count();
        const std::string what = waited < limit ? "" : missing();
        lock.unlock();  // the log and the caller's function may block
        if (!what.empty()) {
            limit += options_.stall_limit_s;
            log_warn("waiting for a batch for {:.1f} s: {}", waited, what);
        }
        const bool enough = give_up && give_up();
        lock.lock();
        if (enough) {
            return ready();
        }
    }
    return true;
}

std::optional<LoadedBatch> Loader::next(const std::function<bool()>& give_up) {
    std::shared_ptr<Job> job;
    {
        std::unique_lock lock(mutex_);
        if (!wait_for_batch(lock, give_up) || stopped_ || jobs_.empty()) {
            return std::nullopt;
        }
        job = std::move(jobs_.front());
        jobs_.pop_front();
    }
    // One more job has come into reach; another caller may find its batch done.
    reader_wake_.notify_one();
    next_wake_.notify_one();
    if (job->error) {
        std::rethrow_exception(job->error);
    }
    return std::move(job->batch);
}

const LoadedBatch* Loader::peek() {
    const std::scoped_lock lock(mutex_);
    const bool ready = !jobs_.empty() && jobs_.front()->state == State::kDone;
    return ready && jobs_.front()->batch ? &*jobs_.front()->batch : nullptr;
}

std::vector<Lease> Loader::discard_submitted() {
    std::vector<Lease> leases;
    {
        const std::scoped_lock lock(mutex_);
        for (const std::shared_ptr<Job>& job : jobs_) {
            job->discarded = true;
            leases.push_back(job->lease);
        }
        jobs_.clear();
    }
    next_wake_.notify_all();
    return leases;
}

void Loader::stop() noexcept {
    {
        const std::scoped_lock lock(mutex_);
        stopped_ = true;
    }
    reader_wake_.notify_all();
    worker_wake_.notify_all();
    next_wake_.notify_all();
}

bool for_each_batch(Loader& loader, std::int64_t batch_size,
                    const std::function<void(const LoadedBatch&)>& use,
                    const std::function<bool()>& give_up) {
    return for_each_batch(loader, 0, loader.info().samples, batch_size, use, give_up);
}

bool for_each_batch(Loader& loader, std::int64_t begin, std::int64_t end, std::int64_t batch_size,
                    const std::function<void(const LoadedBatch&)>& use,
                    const std::function<bool()>& give_up) {
    check_evaluation(loader.info(), begin, end, batch_size);
    std::int64_t submitted = begin;
    std::int64_t used = begin;
    std::uint64_t id = 0;
    try {
        for (int ahead = 0; used < end;) {
            for (; ahead <= loader.prefetch() && submitted < end; ++ahead) {
                Lease lease{.id = id++, .epoch = 0, .position = submitted, .samples = {}};
                const std::int64_t stop = std::min(end, submitted + batch_size);
                for (; submitted < stop; ++submitted) {
                    lease.samples.push_back(submitted);
                }
                loader.submit(std::move(lease));
            }
            const std::optional<LoadedBatch> batch = loader.next(give_up);
            if (!batch) {
                loader.discard_submitted();
                return false;
            }
            --ahead;
            used += batch->size();
            use(*batch);
        }
    } catch (...) {
        loader.discard_submitted();
        throw;
    }
    return true;
}

}  // namespace cohort
