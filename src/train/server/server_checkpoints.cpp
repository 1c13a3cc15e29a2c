#include "train/server/server_checkpoints.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "cohort/core/clock.hpp"

namespace cohort {

struct ShardWriter::State {
    struct Job {
        std::string manifest;
        ShardSnapshot snapshot;
        double pause_s = 0;
    };

    State(Hdf5Thread& on, OperationBoard& board, std::function<void(const SavedPart&)> to)
        : hdf5(on), operations(board), report(std::move(to)), thread([this] { work(); }) {}

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            wake.wait(lock, [this] { return ending || !jobs.empty(); });
            if (jobs.empty()) {
                return;
            }
            const Job job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            report(save(job));
            lock.lock();
        }
    }

    [[nodiscard]] SavedPart save(const Job& job) {
        const auto wait = operations.begin("writing a checkpoint", ++written, {}, WaitLimit::kWarn);
        const SteadyClock clock;
        const auto start = clock.now();
        SavedPart saved{
            .checkpoint = job.manifest, .part = job.snapshot.part, .pause_s = job.pause_s};
        try {
            saved.file = write_shard(job.manifest, job.snapshot, hdf5);
        } catch (const std::exception& error) {
            saved.error = error.what();
        }
        saved.write_s = (clock.now() - start).count();
        return saved;
    }

    Hdf5Thread& hdf5;
    OperationBoard& operations;
    std::function<void(const SavedPart&)> report;
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Job> jobs;
    bool ending = false;
    std::uint64_t written = 0;
    std::thread thread;  // last member: starts when the others exist
};

ShardWriter::ShardWriter(Hdf5Thread& thread, OperationBoard& operations,
                         std::function<void(const SavedPart&)> report)
    : state_(std::make_unique<State>(thread, operations, std::move(report))) {
}

ShardWriter::~ShardWriter() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->ending = true;
    }
    state_->wake.notify_one();
    state_->thread.join();
}

void ShardWriter::write(std::string manifest, ShardSnapshot snapshot, double pause_s) {
    {
        const std::lock_guard lock(state_->mutex);
        state_->jobs.push_back({std::move(manifest), std::move(snapshot), pause_s});
    }
    state_->wake.notify_one();
}

}  // namespace cohort
