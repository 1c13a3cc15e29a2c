// What the loader's threads do; the states of a job stand at Loader::Impl.
#include <algorithm>
#include <utility>

#include "data/loader/loader_impl.hpp"

namespace cohort {

std::shared_ptr<Loader::Impl::Job> Loader::Impl::find_job(State state) const {
    const std::size_t reach = std::min(jobs_.size(), static_cast<std::size_t>(options_.prefetch));
    for (std::size_t i = 0; i < reach; ++i) {
        if (jobs_[i]->state == state) {
            return jobs_[i];
        }
    }
    return nullptr;
}

void Loader::Impl::run_reader() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        if (const std::shared_ptr<Job> job = find_job(State::kQueued)) {
            load(*job, lock);
        } else if (!read_ahead_.empty()) {
            read_one_ahead(lock);
        } else {
            reader_wake_.wait(lock);
        }
    }
}

void Loader::Impl::load(Job& job, std::unique_lock<std::mutex>& lock) {
    std::exception_ptr error;
    while (job.chunks.size() < job.chunk_ids.size() && !error && !stopped_ && !job.discarded) {
        reading_ = job.chunk_ids[job.chunks.size()];
        lock.unlock();
        try {
            job.chunks.push_back(cache_.get(reading_));
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        reading_ = -1;
    }
    if (stopped_ || job.discarded) {
        return;
    }
    if (error) {
        job.error = error;
        job.state = State::kDone;
        next_wake_.notify_all();
        return;
    }
    job.state = State::kLoaded;
    worker_wake_.notify_one();
    plan_read_ahead(job.lease);
}

void Loader::Impl::plan_read_ahead(const Lease& lease) {
    if (!options_.order || lease.position < 0 || lease.position >= info().samples) {
        return;
    }
    // A lease that was returned and comes again from an earlier window changes no plan.
    if (order_ && lease.epoch < order_->epoch()) {
        return;
    }
    if (!order_ || lease.epoch > order_->epoch()) {
        order_.emplace(info(), *options_.order, lease.epoch);
        window_ = -1;
    }
    const std::int64_t last = std::min(lease.position + lease.size(), info().samples) - 1;
    const std::int64_t window = order_->window_of(last);
    if (window <= window_) {
        return;
    }
    window_ = window;
    // This window first: chunks that are there already become the most recently used.
    const std::span<const std::int64_t> now = order_->window_chunks(window);
    read_ahead_.assign(now.begin(), now.end());
    if (window + 1 < order_->windows()) {
        const std::span<const std::int64_t> then = order_->window_chunks(window + 1);
        read_ahead_.insert(read_ahead_.end(), then.begin(), then.end());
    } else if (order_->windows() > 1) {
        const EpochOrder following(info(), *options_.order, lease.epoch + 1);
        const std::span<const std::int64_t> then = following.window_chunks(0);
        read_ahead_.insert(read_ahead_.end(), then.begin(), then.end());
    }
}

void Loader::Impl::read_one_ahead(std::unique_lock<std::mutex>& lock) {
    const std::int64_t chunk = read_ahead_.front();
    read_ahead_.pop_front();
    reading_ = chunk;
    lock.unlock();
    bool failed = false;
    try {
        static_cast<void>(cache_.get(chunk));
    } catch (...) {
        failed = true;  // read again, and reported, when a lease needs the chunk
    }
    lock.lock();
    reading_ = -1;
    if (failed) {
        read_ahead_.clear();
    }
}

void Loader::Impl::run_worker() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        if (const std::shared_ptr<Job> job = find_job(State::kLoaded)) {
            prepare(*job, lock);
        } else {
            worker_wake_.wait(lock);
        }
    }
}

void Loader::Impl::prepare(Job& job, std::unique_lock<std::mutex>& lock) {
    job.state = State::kPreparing;
    lock.unlock();
    try {
        auto content =
            std::make_unique<LoadedBatch::Content>(job.lease, info().sample_elements(), pool_);
        fill(job, *content);
        job.content = std::move(content);
    } catch (...) {
        job.error = std::current_exception();
    }
    job.chunks.clear();
    lock.lock();
    job.state = State::kDone;
    next_wake_.notify_all();
}

void Loader::Impl::fill(const Job& job, LoadedBatch::Content& content) const {
    const std::int64_t elements = info().sample_elements();
    const std::int64_t chunk_samples = info().chunk_samples;
    for (std::size_t i = 0; i < job.lease.samples.size(); ++i) {
        const std::int64_t id = job.lease.samples[i];
        const auto place =
            std::lower_bound(job.chunk_ids.begin(), job.chunk_ids.end(), id / chunk_samples);
        const RawChunk& chunk =
            *job.chunks[static_cast<std::size_t>(place - job.chunk_ids.begin())];
        const auto within = static_cast<std::size_t>(id - chunk.first_sample);
        transform_.apply(chunk.data.data() + within * info().sample_bytes(), id, job.lease.epoch,
                         content.samples.data() + static_cast<std::int64_t>(i) * elements);
        content.labels[i] = chunk.labels[within];
    }
}

}  // namespace cohort
