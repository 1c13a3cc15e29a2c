#include "train/server/server_checkpoints.hpp"

#include <exception>
#include <utility>

#include "cohort/core/clock.hpp"
#include "core/failure_text.hpp"
#include "core/log.hpp"

namespace cohort {

ShardWriter::ShardWriter(Hdf5Thread& thread, OperationBoard& operations,
                         std::function<void(const SavedPart&)> report,
                         std::optional<MirrorSender> mirrors)
    : hdf5_(thread),
      operations_(operations),
      report_(std::move(report)),
      mirrors_(mirrors),
      thread_([this](const std::stop_token& stop) { work(stop); }) {
}

void ShardWriter::write(std::string manifest, ShardSnapshot snapshot, double pause_s) {
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back({std::move(manifest), std::move(snapshot), pause_s});
    }
    wake_.notify_one();
}

void ShardWriter::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
        const Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        const SavedPart saved = save(job);
        try {
            report_(saved);
        } catch (const std::exception& error) {  // the World has ended
            log_warn("{}", failure_text(error));
        }
        lock.lock();
    }
}

SavedPart ShardWriter::save(const Job& job) {
    const auto wait = operations_.begin("writing a checkpoint", ++written_, {}, WaitLimit::kWarn);
    const SteadyClock clock;
    const auto start = clock.now();
    SavedPart saved{.checkpoint = job.manifest, .part = job.snapshot.part, .pause_s = job.pause_s};
    try {
        if (is_mirror(job.manifest)) {
            check_invariant(mirrors_.has_value(), "mirrors are ordered where they are held");
            mirrors_->send(job.manifest, job.snapshot);
        } else {
            saved.file = write_shard(job.manifest, job.snapshot, hdf5_);
        }
    } catch (const std::exception& error) {
        saved.error = failure_text(error);
    }
    saved.write_s = (clock.now() - start).count();
    return saved;
}

}  // namespace cohort
