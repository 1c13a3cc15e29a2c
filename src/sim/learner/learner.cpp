#include "sim/learner/learner.hpp"

#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/thread_team.hpp"
#include "cohort/networks/network.hpp"
#include "cohort/optim/learning_options.hpp"
#include "core/bf16.hpp"
#include "layers/optim/vector_math.hpp"
#include "sched/session/model_input.hpp"
#include "sim/learner/learner_store.hpp"
#include "sim/learner/learner_work.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kEvaluationBatch = 100;

int checked_threads(const LearnerOptions& options) {
    if (options.threads < 1 || options.threads > kMaxThreads) {
        fail<UsageError>({.where = "--threads",
                          .what = "must be a number of threads",
                          .expected = fmt::format("1..{}", kMaxThreads),
                          .got = std::to_string(options.threads)});
    }
    return options.threads;
}

/// Adds the calling thread's core seconds to a sum.
class OwnTimeScope {
public:
    explicit OwnTimeScope(double& sum) : sum_(sum), begin_(clock_.now()) {}
    OwnTimeScope(const OwnTimeScope&) = delete;
    OwnTimeScope& operator=(const OwnTimeScope&) = delete;
    ~OwnTimeScope() { sum_ += (clock_.now() - begin_).count(); }

private:
    ThreadCpuClock clock_;
    double& sum_;
    Clock::Seconds begin_;
};

/// Rounds pushes as they travel, with what earlier ones of their worker left. A worker has no other
/// push between making one and its being applied, so rounding it then is the same.
class PushRounding {
public:
    explicit PushRounding(Wire wire) : wire_(wire) {}

    void round(Work kind, int worker, std::span<float> values) {
        if (wire_ == Wire::kBf16) {
            std::vector<float>& rest = rests_[{kind, worker}];
            rest.resize(values.size());
            rounded_.resize(values.size());
            narrow_with_rest(values, rest.data(), rest.data(), rounded_.data());
            widen_bf16(rounded_.data(), values);
        }
    }

private:
    Wire wire_;
    std::map<std::pair<Work, int>, std::vector<float>> rests_;
    std::vector<std::uint16_t> rounded_;
};

class TrainingLearner final : public Learner {
public:
    TrainingLearner(const LearnerOptions& options, LearnerResources& shared)
        : train_(
              shared.samples(options.data, "train", parse_augment(options.augment, options.seed))),
          test_(shared.samples(options.data, "test", {})),
          graph_(make_graph(options.network, model_input(train_->info()), nullptr,
                            train_->info().vocabulary.get())),
          readers_{SliceReader(train_->info(), {.seed = options.seed}),
                   SliceReader(train_->info(), {.seed = options.seed})},
          store_(graph_,
                 optimizer_options({.optimizer = options.optimizer,
                                    .momentum = options.momentum,
                                    .nesterov = options.nesterov,
                                    .weight_decay = options.weight_decay,
                                    .beta1 = options.beta1,
                                    .beta2 = options.beta2,
                                    .epsilon = options.epsilon}),
                 options.seed, options.average_samples, options.pulls ? options.wire : Wire::kF32),
          rounding_(options.wire),
          parts_{.graph = graph_,
                 .samples = *train_,
                 .store = store_,
                 .seed = options.seed,
                 .clip_norm = options.clip_norm,
                 .mean_clip_norm = options.pulls ? 0 : options.clip_norm},
          pool_(shared.threads(), shared.engines(network_text(graph_), graph_)) {
        if (train_->info().sample_shape != test_->info().sample_shape ||
            train_->info().targets != test_->info().targets) {
            fail<FileError>({.where = options.data,
                             .what = "the train and test groups hold different samples",
                             .expected = to_string(Shape(train_->info().sample_shape)),
                             .got = to_string(Shape(test_->info().sample_shape))});
        }
    }

    [[nodiscard]] Released release(int worker, double lag, double lr,
                                   bool delay_compensated) override {
        const OwnTimeScope time(own_s_);
        return delay_compensated ? store_.release_compensated(worker, lag, lr)
                                 : store_.release(lag, lr);
    }

    WorkId start(const Job& job) override {
        std::shared_ptr<LearnerWork> work = make_work(job);
        const std::shared_ptr<WorkTask> task = make_task(parts_, work);
        const WorkId id = enter(std::move(work), task);
        pool_.submit(task);
        return id;
    }

    std::vector<WorkId> start_group(std::span<const Job> jobs) override {
        std::vector<std::shared_ptr<LearnerWork>> works;
        for (const Job& job : jobs) {
            check_invariant(job.work == Work::kDelta && job.steps == jobs.front().steps,
                            "a group takes its steps together");
            works.push_back(make_work(job));
        }
        const std::shared_ptr<WorkTask> task = make_group_task(parts_, works, pool_);
        std::vector<WorkId> ids;
        for (std::shared_ptr<LearnerWork>& work : works) {
            ids.push_back(enter(std::move(work), task));
        }
        pool_.submit(task, static_cast<int>(jobs.size()));
        return ids;
    }

    [[nodiscard]] Outcome outcome(WorkId work) override {
        Entry& entry = done(work);
        entry.told = true;
        return entry.work->outcome;
    }

    void forget(WorkId work) override {
        const auto found = entries_.find(work);
        if (found == entries_.end()) {
            return;
        }
        const Entry entry = std::move(found->second);
        entries_.erase(found);
        entry.work->unwanted = true;
        if (entry.task->unwanted()) {
            pool_.drop(entry.task);
        }
        const auto local = local_.find(entry.work->job.worker);
        if (!entry.told && local != local_.end() && local->second.state == entry.work->local) {
            local_.erase(local);  // of steps that are not part of any update
        }
    }

    double apply(const UpdateOrder& update, std::span<const WorkId> works) override {
        check_invariant(works.size() == update.terms.size(), "each term has its computation");
        std::vector<std::shared_ptr<float>> values;
        for (const WorkId work : works) {
            values.push_back(done(work).work->values);
        }
        const OwnTimeScope time(own_s_);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto floats = graph_.parameters().total() + graph_.state().total();
            rounding_.round(update.work, update.terms[i].push.worker,
                            {values[i].get(), static_cast<std::size_t>(floats)});
        }
        const double squares = store_.apply(update, values, pool_, parts_.mean_clip_norm);
        for (const WorkId work : works) {
            entries_.erase(work);
        }
        return squares;
    }

    void set_reference(WorkId work) override {
        reference_.set(done(work).work->values, graph_.parameters().total());
        entries_.erase(work);
    }

    [[nodiscard]] std::pair<double, double> compare(WorkId work) override {
        if (!reference_.known()) {
            return {0, 0};
        }
        return {reference_.dot_with(done(work).work->values.get()),
                std::sqrt(reference_.squares())};
    }

    [[nodiscard]] Accuracy evaluate(std::int64_t most) override {
        return evaluate(store_.release(0, 0), most);
    }

    [[nodiscard]] Accuracy evaluate_average(std::int64_t most) override {
        return evaluate(store_.average(), most);
    }

    [[nodiscard]] std::uint64_t digest() override { return store_.digest(); }
    [[nodiscard]] std::int64_t samples_computed() const override { return parts_.computed; }
    [[nodiscard]] double engine_core_s() const override { return pool_.core_s() + own_s_; }
    [[nodiscard]] std::uint64_t buffer_bytes_most() const override {
        return store_.buffer_bytes_most();
    }

private:
    struct Entry {
        std::shared_ptr<LearnerWork> work;
        std::shared_ptr<WorkTask> task;
        bool told = false;  ///< its outcome was asked for
    };
    /// A worker's local steps.
    struct Local {
        std::shared_ptr<LocalState> state;
        std::shared_ptr<WorkTask> last;
    };

    [[nodiscard]] Accuracy evaluate(const Released& released, std::int64_t most) {
        const std::int64_t samples =
            most > 0 ? std::min(most, test_->info().samples) : test_->info().samples;
        std::vector<BatchResult> results(
            static_cast<std::size_t>((samples + kEvaluationBatch - 1) / kEvaluationBatch));
        pool_.run_parts(
            static_cast<int>(results.size()),
            [&](int part, LearnerEngine* engine) {
                std::vector<std::int64_t> ids;
                const std::int64_t begin = part * kEvaluationBatch;
                for (std::int64_t id = begin; id < std::min(begin + kEvaluationBatch, samples);
                     ++id) {
                    ids.push_back(id);
                }
                engine->load(released->id(), released->values().get());
                test_->load(ids, 0, engine->batch);
                results[static_cast<std::size_t>(part)] =
                    engine->replica.evaluate(engine->batch.view());
            },
            false);
        BatchResult sums;
        for (const BatchResult& result : results) {
            sums.correct += result.correct;
            sums.loss_sum += result.loss_sum;
        }
        const auto count = static_cast<double>(samples);
        return {.accuracy = test_->info().task() == Task::kRegression
                                ? std::nullopt
                                : std::optional(sums.correct / count),
                .loss = sums.loss_sum / count,
                .samples = samples};
    }

    [[nodiscard]] std::shared_ptr<LearnerWork> make_work(const Job& job) {
        check_invariant(job.parameters != nullptr && job.steps >= 1,
                        "a job has parameters and steps");
        auto work = std::make_shared<LearnerWork>();
        work->job = job;
        work->ids = readers_[job.slice.epoch % 2].samples(job.slice);
        if (job.work == Work::kDelta) {
            work->local = local_state(job);
        }
        return work;
    }

    /// One computation at a time: the one before is over, as its push is.
    [[nodiscard]] std::shared_ptr<LocalState> local_state(const Job& job) {
        Local& local = local_[job.worker];
        if (local.last != nullptr) {
            pool_.wait(std::exchange(local.last, nullptr));
        }
        if (local.state == nullptr || local.state->generation != job.generation) {
            local.state = std::make_shared<LocalState>();
            local.state->generation = job.generation;
        }
        return local.state;
    }

    WorkId enter(std::shared_ptr<LearnerWork> work, const std::shared_ptr<WorkTask>& task) {
        if (work->local != nullptr) {
            local_[work->job.worker].last = task;
        }
        entries_.emplace_hint(entries_.end(), ++last_,
                              Entry{.work = std::move(work), .task = task, .told = false});
        return last_;
    }

    [[nodiscard]] Entry& done(WorkId work) {
        const auto found = entries_.find(work);
        check_invariant(found != entries_.end(), "a result is asked for while its work is known");
        pool_.wait(found->second.task);
        return found->second;
    }

    std::shared_ptr<const SampleMemory> train_;
    std::shared_ptr<const SampleMemory> test_;
    Graph graph_;
    std::array<SliceReader, 2> readers_;  ///< of even and odd epochs
    ParameterStore store_;
    PushRounding rounding_;
    LearnerParts parts_;
    std::map<int, Local> local_;  ///< by worker
    std::map<WorkId, Entry> entries_;
    ReferencePush reference_;
    double own_s_ = 0;  ///< of the event loop's thread
    LearnerPool pool_;  ///< ends first
};

}  // namespace

std::unique_ptr<Learner> make_learner(const LearnerOptions& options) {
    LearnerResources own(checked_threads(options));
    return make_learner(options, own);
}

std::unique_ptr<Learner> make_learner(const LearnerOptions& options, LearnerResources& shared) {
    return std::make_unique<TrainingLearner>(options, shared);
}

}  // namespace cohort
