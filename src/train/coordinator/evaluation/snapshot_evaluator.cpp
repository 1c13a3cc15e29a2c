#include "train/coordinator/evaluation/snapshot_evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/model/replica.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"
#include "train/run/evaluation.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

/// Samples between two pauses, and between two looks at whether to go on.
constexpr std::int64_t kBatch = 64;
constexpr int kEvaluatorNiceness = 5;
struct Submitted {
    std::uint64_t id = 0;
    std::vector<float> parameters;
    std::vector<float> state;
};

/// Network and input of the evaluator's own; made and used on its thread.
struct EvaluatorParts {
    explicit EvaluatorParts(const JobContext& parts)
        : device(make_cpu_device(1)),
          replica(parts.network != nullptr
                      ? parts.network->make(*device)
                      : std::make_unique<Replica>(
                            parts.graph, *device,
                            ReplicaOptions{.deterministic = parts.options.deterministic})),
          loader(parts.test_set, {.prefetch = 1, .allocator = host_allocator(*device)}) {}

    void load(const Submitted& snapshot) const {
        Stream& stream = replica->stream();
        stream.copy(replica->parameters().data(), snapshot.parameters.data(),
                    replica->parameters().size_bytes());
        stream.copy(replica->state().data(), snapshot.state.data(), replica->state().size_bytes());
        stream.synchronize();
    }

    std::unique_ptr<Device> device;
    std::unique_ptr<TrainableModel> replica;
    Loader loader;
};

void check_floats(const char* what, std::int64_t expected, std::size_t got) {
    if (static_cast<std::size_t>(expected) != got) {
        fail<ShapeError>({.where = "snapshot to evaluate",
                          .what = fmt::format("{} of another network", what),
                          .expected = fmt::format("{} floats", expected),
                          .got = std::to_string(got)});
    }
}

}  // namespace

struct SnapshotEvaluator::State {
    State(const JobContext& job, double share, Done when_done)
        : parts(job), limit(share), done(std::move(when_done)) {}

    const JobContext& parts;
    const ShareLimit limit;
    const Done done;
    mutable std::mutex mutex;
    std::condition_variable wake;
    std::optional<Submitted> waiting;
    bool busy = false;
    bool lifted = false;
    bool stopping = false;
    std::optional<EvaluatorParts> own;  ///< of the thread
    std::thread thread;

    void run();
    [[nodiscard]] std::optional<Submitted> take();
    [[nodiscard]] std::optional<SnapshotEvaluation> evaluate(const Submitted& snapshot);
    [[nodiscard]] std::optional<BatchResult> evaluate_slowly();
    [[nodiscard]] bool pause(Clock::Seconds seconds);
    [[nodiscard]] bool asked_to_stop() const {
        const std::scoped_lock lock(mutex);
        return stopping;
    }
};

void SnapshotEvaluator::State::run() {
    lower_thread_priority("the evaluator's thread", kEvaluatorNiceness);
    while (const std::optional<Submitted> snapshot = take()) {
        const std::optional<SnapshotEvaluation> result = evaluate(*snapshot);
        {
            const std::scoped_lock lock(mutex);
            busy = false;
        }
        if (result) {
            done(*result);
        }
    }
    own.reset();  // where it was made
}

/// Sleeps until there is a snapshot; std::nullopt when it is time to stop.
std::optional<Submitted> SnapshotEvaluator::State::take() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return stopping || waiting; });
    if (stopping) {
        return std::nullopt;
    }
    busy = true;
    return std::exchange(waiting, std::nullopt);
}

/// std::nullopt when it was abandoned.
std::optional<SnapshotEvaluation> SnapshotEvaluator::State::evaluate(const Submitted& snapshot) {
    const SteadyClock clock;
    const auto start = clock.now();
    SnapshotEvaluation evaluation;
    evaluation.part.id = snapshot.id;
    try {
        if (!own) {
            own.emplace(parts);
        }
        own->load(snapshot);
        const std::optional<BatchResult> sums = evaluate_slowly();
        if (!sums) {
            return std::nullopt;
        }
        evaluation.part.loss_sum = sums->loss_sum;
        evaluation.part.correct = sums->correct;
        evaluation.part.samples = sums->samples;
    } catch (...) {
        evaluation.error = std::current_exception();
    }
    evaluation.part.seconds = (clock.now() - start).count();
    return evaluation;
}

std::optional<BatchResult> SnapshotEvaluator::State::evaluate_slowly() {
    const SteadyClock clock;
    const ThreadCpuClock cpu_clock;
    const std::int64_t samples = own->loader.info().samples;
    BatchResult total;
    for (std::int64_t begin = 0; begin < samples; begin += kBatch) {
        const auto start = clock.now();
        const auto cpu = cpu_clock.now();
        const std::optional<BatchResult> sums =
            evaluate_range(*own->replica, own->loader, begin, std::min(begin + kBatch, samples),
                           kBatch, [this] { return asked_to_stop(); });
        if (!sums) {
            return std::nullopt;
        }
        total.loss_sum += sums->loss_sum;
        total.correct += sums->correct;
        total.samples += sums->samples;
        const Clock::Seconds took = clock.now() - start;
        const bool elsewhere = parts.network != nullptr;  // on a thread of the program's
        if (!pause(limit.pause_after(elsewhere ? took : cpu_clock.now() - cpu, took))) {
            return std::nullopt;
        }
    }
    return total;
}

/// Sleeps unless the share has been lifted; false when it is time to stop.
bool SnapshotEvaluator::State::pause(Clock::Seconds seconds) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, seconds, [this] { return stopping || lifted; });
    return !stopping;
}

SnapshotEvaluator::SnapshotEvaluator(const JobContext& parts, double share, Done done)
    : state_(std::make_unique<State>(parts, share, std::move(done))) {
    try {
        state_->thread = std::thread([state = state_.get()] { state->run(); });
    } catch (const std::system_error& error) {
        fail<DeviceError>({.where = "evaluator's thread",
                           .what = "could not be started: " + error.code().message(),
                           .hint = "higher limits (ulimit -u, ulimit -v)"});
    }
}

SnapshotEvaluator::~SnapshotEvaluator() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->stopping = true;
    }
    state_->wake.notify_all();
    state_->thread.join();
}

bool SnapshotEvaluator::submit(std::uint64_t id, std::vector<float> parameters,
                               std::vector<float> state) {
    check_floats("parameters", state_->parts.graph.parameters().total(), parameters.size());
    check_floats("state", state_->parts.graph.state().total(), state.size());
    {
        const std::scoped_lock lock(state_->mutex);
        if (state_->waiting) {
            return false;
        }
        state_->waiting = Submitted{id, std::move(parameters), std::move(state)};
    }
    state_->wake.notify_all();
    return true;
}

bool SnapshotEvaluator::has_room() const {
    const std::scoped_lock lock(state_->mutex);
    return !state_->waiting;
}

bool SnapshotEvaluator::idle() const {
    const std::scoped_lock lock(state_->mutex);
    return !state_->waiting && !state_->busy;
}

void SnapshotEvaluator::lift_share() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->lifted = true;
    }
    state_->wake.notify_all();
}

}  // namespace cohort
