#include "sim/learner/learner_work.hpp"

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/optim/learning_options.hpp"
#include "layers/optim/vector_math.hpp"
#include "sched/session/gradient_statistics.hpp"

namespace cohort {
namespace {

/// Takes gradient and batch statistics piece by piece, while they are in the cache.
class Collector final : public StepObserver {
public:
    /// @param to [parameters, state]; null: only looked at
    Collector(Replica& replica, float* to, const std::function<bool()>& give_up)
        : replica_(replica), to_(to), give_up_(give_up) {}

    bool should_interrupt() override { return give_up_(); }
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        constexpr std::int64_t kAlign = FlatLayout::kAlignment;
        const std::int64_t padded = (end + kAlign - 1) / kAlign * kAlign;
        const auto piece = replica_.gradients().subspan(static_cast<std::size_t>(begin),
                                                        static_cast<std::size_t>(padded - begin));
        if (to_ != nullptr) {
            std::copy(piece.begin(), piece.end(), to_ + begin);
        }
        squares_ += sum_of_squares(piece);
    }
    /// The step is over.
    void finish() {
        if (to_ != nullptr) {
            const std::span<const float> statistics = replica_.batch_state();
            std::copy(statistics.begin(), statistics.end(), to_ + replica_.gradients().size());
        }
    }
    [[nodiscard]] double squares() const noexcept { return squares_; }

private:
    Replica& replica_;
    float* to_;
    const std::function<bool()>& give_up_;
    double squares_ = 0;
};

void add_statistics(std::span<double> sums, std::span<const float> means, std::int64_t samples) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += static_cast<double>(samples) * static_cast<double>(means[i]);
    }
}

/// Steps of a replica.
class StepTask : public WorkTask {
public:
    using WorkTask::WorkTask;

protected:
    /// Forward and backward of `batch` with the engine's parameters; gradient and batch statistics
    /// go to `to` unless it is null. Adds to the work's loss and hits.
    /// @return the gradient's sum of squares; negative: given up
    double compute(LearnerWork& work, LearnerEngine& engine, const BatchView& batch, float* to) {
        const std::function<bool()> give_up = [this] { return unwanted(); };
        Collector collector(engine.replica, to, give_up);
        const auto result = engine.replica.train_step(batch, parts_.seed, collector);
        if (!result) {
            return -1;
        }
        collector.finish();
        parts_.computed += batch.size;
        work.outcome.loss_sum += result->loss_sum;
        work.outcome.correct += result->correct;
        return collector.squares();
    }

    /// One local step.
    void update(LearnerWork& work, std::span<float> theta, std::span<const float> gradient) const {
        std::unique_ptr<Optimizer>& optimizer = work.local->optimizer;
        if (!optimizer) {
            optimizer = parts_.store.make_local_optimizer();
        }
        std::vector<float> clipped;
        const double norm = parts_.clip_norm > 0 ? cohort::norm(gradient) : 0;
        if (const double factor = clip_factor(parts_.clip_norm, norm); factor < 1) {
            clipped.resize(gradient.size());
            scale_into(clipped, gradient, static_cast<float>(factor));
        }
        optimizer->begin_update(1, work.job.lr);
        optimizer->apply(0, theta, clipped.empty() ? gradient : clipped);
    }

    /// The delta from the work's start to `theta` into work.values, and what goes with it.
    /// @param statistics sums over `counted` samples  @param finite all steps so far
    void finish(LearnerWork& work, std::span<const float> theta, std::span<const double> statistics,
                std::int64_t counted, bool finite) {
        const float* start = work.job.parameters->values().get();
        const std::span<float> delta(work.values.get(), parameters());
        for (std::size_t i = 0; i < delta.size(); ++i) {
            delta[i] = theta[i] - start[i];
        }
        const double weight = counted > 0 ? 1 / static_cast<double>(counted) : 0;
        std::transform(statistics.begin(), statistics.end(), delta.end(),
                       [weight](double sum) { return static_cast<float>(weight * sum); });
        const double squares = sum_of_squares(delta);
        work.outcome.gradient_norm = std::sqrt(squares);
        work.outcome.finite =
            finite && std::isfinite(squares) && std::isfinite(work.outcome.loss_sum);
        work.job.parameters.reset();
        if (!work.outcome.finite) {
            work.local->optimizer.reset();  // its state is of no use either
        }
    }

    [[nodiscard]] std::size_t parameters() const {
        return static_cast<std::size_t>(parts_.graph.parameters().total());
    }

    [[nodiscard]] std::size_t state() const {
        return static_cast<std::size_t>(parts_.graph.state().total());
    }
};

class GradientTask final : public StepTask {
public:
    using StepTask::StepTask;
    bool run(LearnerEngine& engine) override {
        if (unwanted()) {
            return true;
        }
        LearnerWork& work = *works_.front();
        engine.load(work.job.parameters->id(), work.job.parameters->values().get());
        parts_.samples.load(work.ids, work.job.slice.epoch, engine.batch);
        work.values = parts_.store.take_buffer();
        const double squares = work.job.halves
                                   ? compute_halves(work, engine)
                                   : compute(work, engine, engine.batch.view(), work.values.get());
        work.outcome.gradient_norm = std::sqrt(std::max(squares, 0.0));
        work.outcome.finite = std::isfinite(squares) && std::isfinite(work.outcome.loss_sum);
        work.job.parameters.reset();
        return true;
    }

private:
    /// Of two mini-batches, then their mean; @return its sum of squares.
    double compute_halves(LearnerWork& work, LearnerEngine& engine) {
        const std::int64_t all = engine.batch.size();
        const std::int64_t first = GradientStatistics::first_half(all);
        const std::shared_ptr<float> other = parts_.store.take_buffer();
        const std::array<std::pair<BatchView, float*>, 2> halves{
            {{engine.batch.part(0, first), other.get()},
             {engine.batch.part(first, all), work.values.get()}}};
        std::vector<SumTerm> terms;
        for (std::size_t i = 0; i < halves.size(); ++i) {
            const auto& [batch, to] = halves[i];
            work.outcome.half_squares[i] = compute(work, engine, batch, to);
            if (work.outcome.half_squares[i] < 0) {
                return -1;
            }
            terms.push_back(
                {.values = to,
                 .coefficient = static_cast<float>(batch.size) / static_cast<float>(all)});
        }
        const auto floats = static_cast<std::int64_t>(parameters() + state());
        std::shared_ptr<float> mean = parts_.store.take_buffer();
        weighted_sum(terms, 0, mean.get(), floats);
        work.values = std::move(mean);
        return sum_of_squares({work.values.get(), parameters()});
    }
};

class LocalTask final : public StepTask {
public:
    using StepTask::StepTask;
    bool run(LearnerEngine& engine) override {
        LearnerWork& work = *works_.front();
        engine.load(0, work.job.parameters->values().get());
        parts_.samples.load(work.ids, work.job.slice.epoch, engine.batch);
        std::vector<double> statistics(state());
        std::int64_t counted = 0;
        bool finite = true;
        for (int step = 0; step < work.job.steps && finite; ++step) {
            const auto [begin, end] = work.piece(step);
            if (begin == end) {
                continue;
            }
            const double squares = compute(work, engine, engine.batch.part(begin, end), nullptr);
            if (squares < 0) {
                return true;
            }
            finite = std::isfinite(squares) && std::isfinite(work.outcome.loss_sum);
            if (finite) {
                add_statistics(statistics, engine.replica.batch_state(), end - begin);
                counted += end - begin;
                update(work, engine.replica.parameters(), engine.replica.gradients());
            }
        }
        work.values = parts_.store.take_buffer();
        finish(work, engine.replica.parameters(), statistics, counted, finite);
        return true;
    }
};

class GroupTask final : public StepTask, public std::enable_shared_from_this<GroupTask> {
public:
    /// @param pool takes the next steps; submit(task, works) begins the first
    GroupTask(LearnerParts& parts, std::vector<std::shared_ptr<LearnerWork>> works,
              LearnerPool& pool)
        : StepTask(parts, std::move(works)),
          pool_(pool),
          members_(works_.size()),
          statistics_(state()),
          left_(works_.size()) {}

    bool run(LearnerEngine& engine) override {
        if (unwanted()) {
            return true;
        }
        compute_member(next_++, engine);
        if (--left_ > 0) {
            return false;
        }
        if (unwanted() || !end_step()) {
            return true;
        }
        next_ = 0;
        left_ = members_.size();
        pool_.submit(shared_from_this(), static_cast<int>(members_.size()), true);
        return false;
    }

private:
    struct Member {
        std::shared_ptr<float> theta;
        std::shared_ptr<float> gradient;
        std::int64_t samples = 0;  ///< of this step
        bool finite = true;
    };
    void compute_member(std::size_t index, LearnerEngine& engine) {
        LearnerWork& work = *works_[index];
        Member& member = members_[index];
        if (member.theta == nullptr) {
            member.theta = parts_.store.take_buffer();
            member.gradient = parts_.store.take_buffer();
            std::copy_n(work.job.parameters->values().get(), parameters() + state(),
                        member.theta.get());
        }
        const auto [begin, end] = work.piece(step_);
        member.samples = end - begin;
        if (member.samples > 0) {
            engine.load(0, member.theta.get());
            parts_.samples.load(
                std::span<const std::int64_t>(work.ids).subspan(
                    static_cast<std::size_t>(begin), static_cast<std::size_t>(member.samples)),
                work.job.slice.epoch, engine.batch);
            const double squares =
                compute(work, engine, engine.batch.view(), member.gradient.get());
            member.finite = std::isfinite(squares) && std::isfinite(work.outcome.loss_sum);
        }
    }

    /// All members of the step are computed. @return false: that was the last step
    [[nodiscard]] bool end_step() {
        std::vector<SumTerm> terms;
        std::int64_t samples = 0;
        bool finite = true;
        for (const Member& member : members_) {
            finite = finite && member.finite;
            samples += member.samples;
            if (member.samples > 0) {
                terms.push_back({.values = member.gradient.get(),
                                 .coefficient = static_cast<float>(member.samples)});
            }
        }
        if (finite && samples > 0) {
            if (sum_ == nullptr) {
                sum_ = parts_.store.take_buffer();
                average_ = parts_.store.take_buffer();
            }
            const auto floats = static_cast<std::int64_t>(parameters() + state());
            weighted_sum(terms, 0, sum_.get(), floats);
            const SumTerm all{.values = sum_.get(),
                              .coefficient = static_cast<float>(1 / static_cast<double>(samples))};
            weighted_sum({&all, 1}, 0, average_.get(), floats);
            add_statistics(statistics_, {average_.get() + parameters(), state()}, samples);
            counted_ += samples;
            for (std::size_t i = 0; i < members_.size(); ++i) {
                update(*works_[i], {members_[i].theta.get(), parameters()},
                       {average_.get(), parameters()});
            }
        }
        if (finite && ++step_ < works_.front()->job.steps) {
            return true;
        }
        finish_all(finite);
        return false;
    }

    void finish_all(bool finite) {
        for (std::size_t i = 0; i < members_.size(); ++i) {
            LearnerWork& work = *works_[i];
            work.values = members_[i].gradient;
            finish(work, {members_[i].theta.get(), parameters()}, statistics_, counted_, finite);
        }
        members_.clear();
        sum_.reset();
        average_.reset();
    }

    LearnerPool& pool_;
    std::vector<Member> members_;
    std::shared_ptr<float> sum_;
    std::shared_ptr<float> average_;
    std::vector<double> statistics_;  ///< sums over samples
    std::int64_t counted_ = 0;        ///< samples in them
    int step_ = 0;
    std::atomic<std::size_t> next_{0};  ///< member of this step
    std::atomic<std::size_t> left_;     ///< members of this step that are not done
};

}  // namespace

std::pair<std::int64_t, std::int64_t> LearnerWork::piece(int step) const noexcept {
    const auto size = static_cast<std::int64_t>(ids.size());
    return {size * step / job.steps, size * (step + 1) / job.steps};
}

std::shared_ptr<WorkTask> make_task(LearnerParts& parts, const std::shared_ptr<LearnerWork>& work) {
    if (work->job.work == Work::kDelta) {
        return std::make_shared<LocalTask>(parts, std::vector{work});
    }
    return std::make_shared<GradientTask>(parts, std::vector{work});
}

std::shared_ptr<WorkTask> make_group_task(LearnerParts& parts,
                                          const std::vector<std::shared_ptr<LearnerWork>>& works,
                                          LearnerPool& pool) {
    return std::make_shared<GroupTask>(parts, works, pool);
}

}  // namespace cohort
