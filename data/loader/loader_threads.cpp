// What the loader's threads do; the states of a job stand at Loader.
#include <algorithm>
#include <utility>

#include "data/loader/loader_batch.hpp"
#include "data/loader/loader_cache.hpp"

namespace cohort {

std::shared_ptr<Loader::Job> Loader::find_job(State state) const {
    const std::size_t reach = std::min(jobs_.size(), static_cast<std::size_t>(options_.prefetch));
    for (std::size_t i = 0; i < reach; ++i) {
        if (jobs_[i]->state == state) {
            return jobs_[i];
        }
    }
    return nullptr;
}

void Loader::run_reader() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        if (const std::shared_ptr<Job> job = find_job(State::kQueued)) {
            load(*job, lock);
        } else if (chunks_->has_ahead()) {
            read_one_ahead(lock);
        } else {
            reader_wake_.wait(lock);
        }
    }
}

void Loader::load(Job& job, std::unique_lock<std::mutex>& lock) {
    std::exception_ptr error;
    while (job.chunks.size() < job.chunk_ids.size() && !error && !stopped_ && !job.discarded) {
        reading_ = job.chunk_ids[job.chunks.size()];
        lock.unlock();
        try {
            job.chunks.push_back(chunks_->get(reading_));
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
    chunks_->plan_ahead(job.lease);
}

void Loader::read_one_ahead(std::unique_lock<std::mutex>& lock) {
    reading_ = chunks_->take_ahead();
    lock.unlock();
    bool failed = false;
    try {
        static_cast<void>(chunks_->get(reading_));
    } catch (...) {
        failed = true;  // read again, and reported, when a lease needs the chunk
    }
    lock.lock();
    reading_ = -1;
    if (failed) {
        chunks_->forget_ahead();
    }
}

void Loader::run_worker() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        if (const std::shared_ptr<Job> job = find_job(State::kLoaded)) {
            prepare(*job, lock);
        } else {
            worker_wake_.wait(lock);
        }
    }
}

void Loader::prepare(Job& job, std::unique_lock<std::mutex>& lock) {
    job.state = State::kPreparing;
    lock.unlock();
    try {
        job.batch = builder_->build(job.lease, job.chunk_ids, job.chunks);
    } catch (...) {
        job.error = std::current_exception();
    }
    job.chunks.clear();
    lock.lock();
    job.state = State::kDone;
    next_wake_.notify_all();
}

}  // namespace cohort
