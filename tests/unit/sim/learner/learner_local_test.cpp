// Local steps of virtual workers, alone and in groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "layers/optim/vector_math.hpp"
#include "support/sim/learner_run.hpp"

namespace cohort {
namespace {

using test::kBatch;
using test::kLr;
using test::LoneTrainer;
using test::parameters_of;
using test::slice;
using test::state_of;
using test::tiny_options;

Learner::Job delta_job(Learner& learner, const LeaseSlice& part, int steps, int worker = 0,
                       std::uint64_t generation = 0) {
    return {.worker = worker,
            .slice = part,
            .parameters = learner.release(worker, 0, kLr, false),
            .work = Work::kDelta,
            .steps = steps,
            .lr = kLr,
            .generation = generation};
}

/// Adds a delta to the current parameters, without anything of the optimizer's: its lr is 0.
void add_delta(Learner& learner, std::int64_t version, const std::vector<Learner::WorkId>& works) {
    std::vector<test::LearnerTerm> terms;
    for (const Learner::WorkId work : works) {
        terms.push_back({.work = work, .coefficient = 1 / static_cast<double>(works.size())});
    }
    (void)test::apply(learner, {.version = version, .fraction = 1, .work = Work::kDelta}, terms);
}

std::vector<float> now(Learner& learner, const LoneTrainer& lone) {
    return parameters_of(lone.graph(), learner.release(0, 0, kLr, false));
}

/// The pieces of a slice that local steps work on.
std::vector<LeaseSlice> pieces(const LeaseSlice& all, int steps) {
    std::vector<LeaseSlice> result;
    for (int step = 0; step < steps; ++step) {
        const std::int64_t begin = all.count * step / steps;
        const std::int64_t end = all.count * (step + 1) / steps;
        if (begin < end) {
            result.push_back(slice(all.position + begin, end - begin));
        }
    }
    return result;
}

/// Local steps of one process from where it is; @return end - start, then mean statistics.
std::vector<float> lone_delta(LoneTrainer& lone, const LeaseSlice& all, int steps) {
    const std::vector<float> start = lone.parameters();
    const std::size_t parameters = start.size();
    std::vector<double> statistics(lone.state().size());
    for (const LeaseSlice& piece : pieces(all, steps)) {
        const std::vector<float> gradient = lone.gradient(piece);
        for (std::size_t i = 0; i < statistics.size(); ++i) {
            statistics[i] +=
                static_cast<double>(piece.count) * static_cast<double>(gradient[parameters + i]);
        }
        lone.optimizer->update(lone.replica.parameters(),
                               std::span<const float>(gradient).first(parameters), 1, kLr);
    }
    std::vector<float> delta = lone.parameters();
    for (std::size_t i = 0; i < parameters; ++i) {
        delta[i] -= start[i];
    }
    for (const double sum : statistics) {
        delta.push_back(static_cast<float>(1 / static_cast<double>(all.count) * sum));
    }
    return delta;
}

void put_back(LoneTrainer& lone, const std::vector<float>& parameters) {
    std::copy(parameters.begin(), parameters.end(), lone.replica.parameters().begin());
}

TEST(LearnerLocal, StepsAreThoseOfOneProcessAndKeepTheirMomentum) {
    const LearnerOptions options = tiny_options("resnet20");
    const std::unique_ptr<Learner> learner = make_learner(options);
    LoneTrainer lone(options);
    std::vector<float> theta = lone.parameters();
    for (std::int64_t round = 0; round < 3; ++round) {
        const LeaseSlice part = slice(round * 30, 30);  // pieces of 7, 8, 7, 8
        SCOPED_TRACE(round);
        const auto work = learner->start(delta_job(*learner, part, 4));
        const std::vector<float> delta = lone_delta(lone, part, 4);
        const Learner::Outcome outcome = learner->outcome(work);
        EXPECT_TRUE(outcome.finite);
        EXPECT_GT(outcome.loss_sum, 0);
        EXPECT_NEAR(outcome.gradient_norm, norm(std::span<const float>(delta).first(theta.size())),
                    1e-9);
        add_delta(*learner, round + 1, {work});
        for (std::size_t i = 0; i < theta.size(); ++i) {
            theta[i] += delta[i];
        }
        put_back(lone, theta);
        fold_batch_statistics(lone.replica.state(),
                              std::span<const float>(delta).subspan(theta.size()),
                              kBatchNormMomentum, 1);
        ASSERT_EQ(now(*learner, lone), theta);
        EXPECT_EQ(state_of(lone.graph(), learner->release(0, 0, kLr, false)), lone.state());
    }
    EXPECT_EQ(learner->samples_computed(), 90);
}

TEST(LearnerLocal, ALeaseShorterThanItsStepsSkipsEmptyPieces) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options("mlp"));
    LoneTrainer lone(tiny_options("mlp"));
    const std::vector<float> start = lone.parameters();
    const auto work = learner->start(delta_job(*learner, slice(0, 2), 4));
    const std::vector<float> delta = lone_delta(lone, slice(0, 2), 2);
    add_delta(*learner, 1, {work});
    const std::vector<float> after = now(*learner, lone);
    for (std::size_t i = 0; i < start.size(); ++i) {
        ASSERT_EQ(after[i], start[i] + delta[i]);
    }
}

/// Norm of a delta over 1 step of a worker: shows whether its velocity was zero before.
double delta_norm(Learner& learner, std::uint64_t generation, bool tell = true) {
    const auto work = learner.start(delta_job(learner, slice(0), 1, 3, generation));
    const double result = tell ? learner.outcome(work).gradient_norm : 0;
    learner.forget(work);
    return result;
}

TEST(LearnerLocal, MomentumStaysFromPushToPushOfAGeneration) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    const double rest = delta_norm(*learner, 0);
    EXPECT_NEAR(delta_norm(*learner, 0), 1.9 * rest, 1e-3 * rest) << "vel = 0.9 g + g";
    EXPECT_EQ(delta_norm(*learner, 1), rest) << "a plan put in force anew";
    EXPECT_GT(delta_norm(*learner, 1), 1.5 * rest);
}

TEST(LearnerLocal, WhoGaveUpBeginsWithANewOptimizer) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    const double rest = delta_norm(*learner, 0);
    delta_norm(*learner, 0, false);
    EXPECT_EQ(delta_norm(*learner, 0), rest);
    EXPECT_GT(delta_norm(*learner, 0), 1.5 * rest);
}

TEST(LearnerLocal, WhatIsNotFiniteIsSaidAndNotRemembered) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    const double rest = delta_norm(*learner, 0);
    Learner::Job job = delta_job(*learner, slice(0, 3 * kBatch), 3, 3);
    job.lr = 1e38;
    const auto work = learner->start(job);
    EXPECT_FALSE(learner->outcome(work).finite);
    learner->forget(work);
    EXPECT_EQ(delta_norm(*learner, 0), rest);
}

TEST(LearnerLocal, TheMeanOfSingleStepsIsTheSynchronousUpdate) {
    LearnerOptions options = tiny_options();
    options.threads = 2;
    const std::unique_ptr<Learner> learner = make_learner(options);
    LoneTrainer lone(options);
    for (std::int64_t round = 0; round < 3; ++round) {
        std::vector<Learner::WorkId> works;
        std::vector<float> sum;
        for (int worker = 0; worker < 4; ++worker) {
            const LeaseSlice part = slice((round * 4 + worker) * kBatch);
            works.push_back(learner->start(delta_job(*learner, part, 1, worker)));
            LoneTrainer::add(sum, lone.gradient(part), 0.25F);
        }
        lone.update(sum, 1, kLr);
        add_delta(*learner, round + 1, works);
        const std::vector<float> theta = now(*learner, lone);
        for (std::size_t i = 0; i < theta.size(); ++i) {
            ASSERT_NEAR(theta[i], lone.replica.parameters()[i], 1e-6);
        }
        put_back(lone, theta);  // roundings of one update only
    }
}

TEST(LearnerLocal, AnUpdateByADeltaIsTheOptimizers) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    LoneTrainer lone(tiny_options());
    LoneTrainer server(tiny_options());
    const std::vector<float> delta = lone_delta(lone, slice(0, 24), 2);
    const auto work = learner->start(delta_job(*learner, slice(0, 24), 2));
    const double squares = test::apply(*learner,
                                       {.version = 1,
                                        .fraction = 0.5,
                                        .learning_rate = kLr,
                                        .work = Work::kDelta,
                                        .ask_norm = true},
                                       {{.work = work}});
    EXPECT_NEAR(squares, sum_of_squares(delta), 1e-9 * squares);
    server.optimizer->begin_delta(0.5, kLr);
    server.optimizer->apply(0, server.replica.parameters(), delta);
    const std::vector<float> gradient = server.gradient(slice(24));
    server.update(gradient, 0.5, kLr);  // the velocity has followed the delta
    const auto next =
        learner->start({.slice = slice(24), .parameters = learner->release(0, 0, kLr, false)});
    (void)test::apply(*learner, {.version = 2, .fraction = 0.5, .learning_rate = kLr},
                      {{.work = next}});
    EXPECT_EQ(now(*learner, lone), server.parameters());
}

struct GroupRun {
    std::vector<double> norms;
    std::vector<float> parameters;  ///< after the mean of the deltas was added
    std::uint64_t digest = 0;
};

GroupRun run_group(const LearnerOptions& options, const std::vector<std::int64_t>& samples,
                   int steps, int rounds = 1) {
    const std::unique_ptr<Learner> learner = make_learner(options);
    const LoneTrainer lone(options);
    GroupRun run;
    for (int round = 0; round < rounds; ++round) {
        std::vector<Learner::Job> jobs;
        std::int64_t position = 0;
        for (const std::int64_t mine : samples) {
            jobs.push_back(
                delta_job(*learner, slice(position, mine), steps, static_cast<int>(jobs.size())));
            position += mine;
        }
        const std::vector<Learner::WorkId> works = learner->start_group(jobs);
        EXPECT_EQ(works.size(), jobs.size());
        for (const Learner::WorkId work : works) {
            run.norms.push_back(learner->outcome(work).gradient_norm);
        }
        add_delta(*learner, round + 1, works);
    }
    run.parameters = now(*learner, lone);
    run.digest = learner->digest();
    return run;
}

TEST(LearnerGroup, AveragesEveryStepWeightedBySamples) {
    const LearnerOptions options = tiny_options("resnet20");
    const std::vector<std::int64_t> samples = {12, 20, 7};
    constexpr int kSteps = 3;
    const GroupRun run = run_group(options, samples, kSteps);
    EXPECT_EQ(run.norms[1], run.norms[0]) << "equal deltas";
    EXPECT_EQ(run.norms[2], run.norms[0]);
    LoneTrainer lone(options);
    for (std::size_t step = 0; step < kSteps; ++step) {
        std::vector<float> sum;
        std::vector<double> exact(run.parameters.size());
        std::int64_t counted = 0;
        std::int64_t position = 0;
        for (const std::int64_t mine : samples) {
            const LeaseSlice part = pieces(slice(position, mine), kSteps)[step];
            const std::vector<float> gradient = lone.gradient(part);
            LoneTrainer::add(sum, gradient, static_cast<float>(part.count));
            for (std::size_t i = 0; i < exact.size(); ++i) {
                exact[i] += static_cast<double>(part.count) * static_cast<double>(gradient[i]);
            }
            counted += part.count;
            position += mine;
        }
        std::vector<float> mean;
        LoneTrainer::add(mean, sum, static_cast<float>(1 / static_cast<double>(counted)));
        for (std::size_t i = 0; i < exact.size(); ++i) {
            ASSERT_NEAR(mean[i], exact[i] / static_cast<double>(counted), 1e-6) << i;
        }
        lone.optimizer->update(lone.replica.parameters(),
                               std::span<const float>(mean).first(exact.size()), 1, kLr);
    }
    // Bit by bit: a rounding elsewhere moves an input of a ReLU over its kink, and the steps after
    // it carry the difference on.
    std::vector<float> expected = LoneTrainer(options).parameters();
    std::vector<float> delta = lone.parameters();
    std::transform(delta.begin(), delta.end(), expected.begin(), delta.begin(), std::minus<>());
    std::vector<float> sum;
    const auto share = static_cast<float>(1 / static_cast<double>(samples.size()));
    for (std::size_t member = 0; member < samples.size(); ++member) {
        LoneTrainer::add(sum, delta, share);  // each pushes the same delta
    }
    std::transform(expected.begin(), expected.end(), sum.begin(), expected.begin(), std::plus<>());
    EXPECT_EQ(run.parameters, expected);
}

TEST(LearnerGroup, DoesNotDependOnTheThreads) {
    LearnerOptions options = tiny_options("resnet20");
    const std::uint64_t one = run_group(options, {12, 5, 9, 12}, 3, 3).digest;
    for (const int threads : {2, 3}) {
        options.threads = threads;
        EXPECT_EQ(run_group(options, {12, 5, 9, 12}, 3, 3).digest, one);
    }
}

TEST(LearnerGroup, AMemberWithFewSamplesMayHaveNoneInAStep) {
    const GroupRun with = run_group(tiny_options(), {12, 1}, 4);
    EXPECT_EQ(with.norms[0], with.norms[1]);
    EXPECT_GT(with.norms[0], 0);
}

TEST(LearnerGroup, GoesOnUntilNobodyWantsIt) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options("resnet20"));
    const auto begin = [&] {
        std::vector<Learner::Job> jobs;
        jobs.reserve(3);
        for (int worker = 0; worker < 3; ++worker) {
            jobs.push_back(delta_job(*learner, slice(worker * 36, 36), 3, worker));
        }
        return learner->start_group(jobs);
    };
    const std::vector<Learner::WorkId> first = begin();
    learner->forget(first[1]);
    EXPECT_TRUE(learner->outcome(first[0]).finite);
    EXPECT_EQ(learner->outcome(first[0]).gradient_norm, learner->outcome(first[2]).gradient_norm);
    learner->forget(first[0]);
    learner->forget(first[2]);
    for (const Learner::WorkId work : begin()) {
        learner->forget(work);
    }
    // Nobody waits for what is gone; all begin with new optimizers.
    const std::vector<Learner::WorkId> last = begin();
    EXPECT_TRUE(learner->outcome(last[2]).finite);
    EXPECT_EQ(learner->outcome(last[0]).gradient_norm, learner->outcome(last[1]).gradient_norm);
}

}  // namespace
}  // namespace cohort
