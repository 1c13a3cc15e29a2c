// What a virtual run learns, against one network that trains in this thread.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/optim/vector_math.hpp"
#include "layers/optim/weighted_sum.hpp"
#include "sched/session/gradient_statistics.hpp"
#include "support/sim/learner_run.hpp"

namespace cohort {
namespace {

using test::kBatch;
using test::kLr;
using test::lone_update;
using test::LoneTrainer;
using test::parameters_of;
using test::slice;
using test::state_of;
using test::synchronous_update;
using test::tiny_options;

class SynchronousTraining : public testing::TestWithParam<LearnerOptions> {};

TEST_P(SynchronousTraining, IsThatOfOneProcessBitForBit) {
    for (const int threads : {1, 2}) {
        LearnerOptions options = GetParam();
        options.data = test::tiny_file();
        options.seed = 7;
        options.threads = threads;
        const std::unique_ptr<Learner> learner = make_learner(options);
        LoneTrainer lone(options);
        for (int round = 0; round < 4; ++round) {
            std::vector<LeaseSlice> slices;
            for (int worker = 0; worker < 8; ++worker) {
                slices.push_back(slice((round % 3 * 8 + worker) * kBatch, kBatch,
                                       static_cast<std::uint32_t>(round / 3)));
            }
            double fraction = 1;
            if (round == 2) {  // the end of an epoch: less than a reference batch
                slices.resize(2);
                slices.back().count = 5;
                fraction = 17.0 / 96;
            }
            const double squares = synchronous_update(*learner, slices, round + 1, fraction);
            lone_update(lone, slices, fraction);
            EXPECT_GT(squares, 0);
        }
        const Learner::Released now = learner->release(0, 0, kLr, false);
        EXPECT_EQ(parameters_of(lone.graph(), now), lone.parameters());
        EXPECT_EQ(state_of(lone.graph(), now), lone.state());
        EXPECT_EQ(learner->samples_computed(), (3 * 8 * kBatch) + kBatch + 5);
        EXPECT_GT(learner->engine_core_s(), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(
    , SynchronousTraining,
    testing::Values(
        LearnerOptions{.network = {.model = "smallcnn"}, .momentum = 0.9, .weight_decay = 5e-4},
        LearnerOptions{.network = {.model = "smallcnn"}, .momentum = 0.9, .nesterov = true},
        LearnerOptions{.network = {.model = "smallcnn"}, .augment = "pad-crop:2,flip"},
        LearnerOptions{
            .network = {.model = "mlp"}, .optimizer = OptimizerKind::kAdamW, .weight_decay = 0.01},
        LearnerOptions{.network = {.model = "lenet"}, .momentum = 0},
        LearnerOptions{.network = {.model = "resnet20"}, .momentum = 0.9}),
    [](const auto& one) {
        return one.param.network.model + std::string(word_of(one.param.optimizer)) +
               std::to_string(one.index);
    });

/// Everything that a run with overlapping work may do; its digest.
std::uint64_t overlapping_run(int threads, std::uint64_t seed = 7) {
    LearnerOptions options = tiny_options("resnet20");
    options.threads = threads;
    options.seed = seed;
    const std::unique_ptr<Learner> learner = make_learner(options);
    std::vector<Learner::WorkId> works;
    for (int worker = 0; worker < 4; ++worker) {
        works.push_back(learner->start({.worker = worker,
                                        .slice = slice(worker * kBatch),
                                        .parameters = learner->release(worker, 0, kLr, false)}));
    }
    for (int i = 0; i < 24; ++i) {
        const auto index = static_cast<std::size_t>(i % 4);
        if (i % 7 == 3) {
            learner->forget(works[index]);
        } else {
            EXPECT_TRUE(learner->outcome(works[index]).finite);
            (void)test::apply(*learner, {.version = i + 1, .fraction = 0.25, .learning_rate = kLr},
                              {{.work = works[index], .worker = i % 4, .version = i}});
        }
        works[index] = learner->start({.worker = i % 4,
                                       .slice = slice(i * kBatch),
                                       .parameters = learner->release(i % 4, 0.75, kLr, false)});
    }
    const Learner::Accuracy accuracy = learner->evaluate(0);
    EXPECT_EQ(accuracy.samples, test::kTinyTest);
    return learner->digest();
}

TEST(Learner, RunsRepeatThemselvesWhateverTheThreads) {
    const std::uint64_t once = overlapping_run(1);
    EXPECT_EQ(overlapping_run(1), once);
    EXPECT_EQ(overlapping_run(2), once);
    EXPECT_EQ(overlapping_run(3), once);
    EXPECT_NE(overlapping_run(2, 8), once);
}

TEST(Learner, TheDigestChangesWithParametersStateAndOptimizer) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options("resnet20"));
    const std::unique_ptr<Learner> same = make_learner(tiny_options("resnet20"));
    const std::uint64_t begin = learner->digest();
    EXPECT_EQ(same->digest(), begin);
    synchronous_update(*learner, {slice(0)}, 1, 1);
    EXPECT_NE(learner->digest(), begin);
    // Without a step there is still a velocity and a running statistic.
    const auto still = [&](Learner& one) {
        return test::apply(
            one, {.version = 1, .fraction = 1},
            {{.work = one.start({.slice = slice(0), .parameters = one.release(0, 0, 0, false)})}});
    };
    still(*same);
    EXPECT_NE(same->digest(), begin);
    EXPECT_NE(same->digest(), learner->digest());
}

TEST(Learner, TellsLossHitsAndNormOfAGradient) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    LoneTrainer lone(tiny_options());
    const std::vector<float> gradient = lone.gradient(slice(24));
    const auto work =
        learner->start({.slice = slice(24), .parameters = learner->release(0, 0, kLr, false)});
    const Learner::Outcome outcome = learner->outcome(work);
    EXPECT_EQ(outcome.loss_sum, lone.result.loss_sum);
    EXPECT_EQ(outcome.correct, lone.result.correct);
    EXPECT_TRUE(outcome.finite);
    EXPECT_NEAR(outcome.gradient_norm, norm(gradient), 1e-9 * outcome.gradient_norm);
    const double squares =
        test::apply(*learner, {.version = 1, .fraction = 1, .learning_rate = kLr, .ask_norm = true},
                    {{.work = work, .coefficient = 0.5}});
    EXPECT_NEAR(squares, 0.25 * sum_of_squares(gradient), 1e-6 * squares);
}

TEST(Learner, HalvesMakeTheSameGradientAndTellTheirNorms) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    const Learner::Released start = learner->release(0, 0, 0, false);
    const auto outcome = [&](LeaseSlice of, bool halves) {
        return learner->outcome(
            learner->start({.slice = of, .parameters = start, .halves = halves}));
    };
    LeaseSlice all = slice(24);
    all.count = 9;
    LeaseSlice first = all;
    first.count = GradientStatistics::first_half(all.count);
    LeaseSlice second = all;
    second.position += first.count;
    second.count -= first.count;
    const Learner::Outcome whole = outcome(all, false);
    const Learner::Outcome halved = outcome(all, true);
    EXPECT_NEAR(halved.gradient_norm, whole.gradient_norm, 1e-4 * whole.gradient_norm);
    EXPECT_NEAR(halved.loss_sum, whole.loss_sum, 1e-4 * whole.loss_sum);
    EXPECT_EQ(halved.correct, whole.correct);
    const std::array<LeaseSlice, 2> parts{first, second};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const double norm = outcome(parts.at(i), false).gradient_norm;
        EXPECT_NEAR(halved.half_squares.at(i), norm * norm, 1e-5 * norm * norm) << i;
        EXPECT_EQ(whole.half_squares.at(i), 0);
    }
}

TEST(Learner, AReleaseIsOfItsVersionAndMayLookAhead) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    LoneTrainer lone(tiny_options());
    const Learner::Released first = learner->release(0, 0, kLr, false);
    EXPECT_EQ(learner->release(1, 0, kLr, false), first) << "copies are shared";
    const std::vector<float> before = parameters_of(lone.graph(), first);
    EXPECT_EQ(before, lone.parameters());
    const std::vector<float> gradient = lone.gradient(slice(0));
    synchronous_update(*learner, {slice(0)}, 1, 0.5);
    lone.update(gradient, 0.5, kLr);
    EXPECT_EQ(parameters_of(lone.graph(), first), before) << "who holds a version keeps it";

    constexpr double kLag = 1.5;
    const Learner::Released ahead = learner->release(0, kLag, kLr, false);
    EXPECT_EQ(learner->release(3, kLag, kLr, false), ahead);
    EXPECT_NE(learner->release(3, kLag, 2 * kLr, false), ahead);
    const std::vector<float> looked = parameters_of(lone.graph(), ahead);
    // From rest, over half a reference batch: vel = (1-m^f)/(1-m) g, and theta - eta vel
    // m (1-m^L)/(1-m).
    const double m = 0.9;
    const double velocity = (1 - std::sqrt(m)) / (1 - m);
    const double further = kLr * m * (1 - std::pow(m, kLag)) / (1 - m);
    for (std::size_t i = 0; i < looked.size(); i += 37) {
        EXPECT_NEAR(looked[i], lone.replica.parameters()[i] - further * velocity * gradient[i],
                    1e-5)
            << i;
    }
}

/// After one reference batch adamw's moments are g and g^2 without their biases: a step is lr.
TEST(Learner, LooksAheadAlongAdamwsFirstMoment) {
    LearnerOptions options = tiny_options();
    options.optimizer = OptimizerKind::kAdamW;
    const std::unique_ptr<Learner> learner = make_learner(options);
    synchronous_update(*learner, {slice(0)}, 1, 0.5);
    EXPECT_EQ(learner->release(0, 2, kLr, false), learner->release(1, 0, kLr, false))
        << "no reference batch is complete";
    const std::unique_ptr<Learner> whole = make_learner(options);
    LoneTrainer lone(options);
    const std::vector<float> gradient = lone.gradient(slice(0));
    synchronous_update(*whole, {slice(0)}, 1, 1);
    const std::vector<float> here = parameters_of(lone.graph(), whole->release(1, 0, kLr, false));
    const std::vector<float> ahead = parameters_of(lone.graph(), whole->release(0, 2, kLr, false));
    constexpr double kFurther = kLr * (0.9 + 0.9 * 0.9);
    std::size_t compared = 0;
    for (std::size_t i = 0; i < ahead.size(); ++i) {
        if (std::fabs(gradient[i]) > 1e-4F) {  // far above epsilon
            EXPECT_NEAR(ahead[i], here[i] - std::copysign(kFurther, gradient[i]), 1e-5) << i;
            ++compared;
        }
    }
    EXPECT_GT(compared, ahead.size() / 4);
}

TEST(Learner, CompensatesTheDelayOfThoseWhoWereReleasedSo) {
    constexpr double kLambda = 0.5;
    const LearnerOptions options = tiny_options();
    const std::unique_ptr<Learner> learner = make_learner(options);
    LoneTrainer lone(options);
    const std::vector<float> start = lone.parameters();
    const auto begin = [&](int worker) {
        return learner->start({.worker = worker,
                               .slice = slice(worker * kBatch),
                               .parameters = learner->release(worker, 0, kLr, true)});
    };
    const Learner::WorkId works[] = {begin(0), begin(1)};
    const std::vector<float> gradients[] = {lone.gradient(slice(0)), lone.gradient(slice(kBatch))};
    for (int worker = 0; worker < 2; ++worker) {
        std::vector<float> sum(gradients[worker].size());
        const SumTerm term{
            .values = gradients[worker].data(), .coefficient = 1, .released = start.data()};
        compensated_sum({&term, 1}, lone.replica.parameters().data(), kLambda, 0, sum.data(),
                        static_cast<std::int64_t>(start.size()));
        lone.update(sum, 0.5, kLr);
        (void)test::apply(*learner,
                          {.version = worker + 1,
                           .fraction = 0.5,
                           .learning_rate = kLr,
                           .delay_compensation = kLambda},
                          {{.work = works[worker], .worker = worker}});
    }
    EXPECT_EQ(parameters_of(lone.graph(), learner->release(0, 0, kLr, false)), lone.parameters());
}

TEST(Learner, WhatIsForgottenLeavesNoTrace) {
    for (const int threads : {1, 2}) {
        LearnerOptions options = tiny_options();
        options.threads = threads;
        const std::unique_ptr<Learner> learner = make_learner(options);
        const Learner::Released released = learner->release(0, 0, kLr, false);
        std::vector<Learner::WorkId> works;
        works.reserve(24);
        for (int i = 0; i < 24; ++i) {
            works.push_back(
                learner->start({.worker = i, .slice = slice(i * kBatch), .parameters = released}));
        }
        for (int i = 0; i < 24; ++i) {
            if (i != 17) {
                learner->forget(works[static_cast<std::size_t>(i)]);
            }
        }
        learner->forget(works[3]);  // again
        learner->forget(999);       // never known
        EXPECT_TRUE(learner->outcome(works[17]).finite);
        EXPECT_THROW((void)learner->outcome(works[3]), std::logic_error);
        (void)test::apply(*learner, {.version = 1, .fraction = 1, .learning_rate = kLr},
                          {{.work = works[17]}});
        EXPECT_THROW((void)learner->outcome(works[17]), std::logic_error);

        const std::unique_ptr<Learner> plain = make_learner(options);
        synchronous_update(*plain, {slice(17 * kBatch)}, 1, 1);
        EXPECT_EQ(learner->digest(), plain->digest());
        EXPECT_LE(learner->samples_computed(), 24 * kBatch);
    }
}

TEST(Learner, QueuedWorkThatIsForgottenIsNotComputed) {
    LearnerOptions options = tiny_options("resnet20");  // slow: all but the first stay queued
    const std::unique_ptr<Learner> learner = make_learner(options);
    const Learner::Released released = learner->release(0, 0, kLr, false);
    std::vector<Learner::WorkId> works;
    works.reserve(50);
    for (int i = 0; i < 50; ++i) {
        works.push_back(
            learner->start({.worker = i, .slice = slice(0, 100), .parameters = released}));
    }
    for (const Learner::WorkId work : works) {
        learner->forget(work);
    }
    // What is asked for now does not wait behind them.
    const auto last = learner->start({.slice = slice(0), .parameters = released});
    EXPECT_TRUE(learner->outcome(last).finite);
    EXPECT_LT(learner->samples_computed(), 25 * 100);
}

TEST(Learner, BuffersAreUsedAgain) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    std::uint64_t most = 0;
    for (int i = 0; i < 30; ++i) {
        synchronous_update(*learner, {slice(0), slice(24)}, i + 1, 1);
        if (i == 3) {
            most = learner->buffer_bytes_most();
        }
    }
    EXPECT_GT(most, 0U);
    EXPECT_EQ(learner->buffer_bytes_most(), most);
}

TEST(Learner, WhatIsNotFiniteIsSaid) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    const auto work =
        learner->start({.slice = slice(0), .parameters = learner->release(0, 0, kLr, false)});
    (void)test::apply(*learner, {.version = 1, .fraction = 1, .learning_rate = 1e38},
                      {{.work = work}});
    const auto next =
        learner->start({.slice = slice(0), .parameters = learner->release(0, 0, kLr, false)});
    EXPECT_FALSE(learner->outcome(next).finite);
    learner->forget(next);
}

TEST(Learner, ComparesWithTheReferenceGradient) {
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    LoneTrainer lone(tiny_options());
    const auto begin = [&](std::int64_t position) {
        return learner->start(
            {.slice = slice(position), .parameters = learner->release(0, 0, kLr, false)});
    };
    const auto work = begin(0);
    EXPECT_EQ(learner->compare(work), std::make_pair(0.0, 0.0)) << "there is none yet";
    learner->set_reference(begin(24));
    const std::vector<float> mine = lone.gradient(slice(0));
    const std::vector<float> reference = lone.gradient(slice(24));
    const auto [product, length] = learner->compare(work);
    EXPECT_NEAR(product, dot(mine, reference), 1e-9 * std::abs(product));
    EXPECT_NEAR(length, norm(reference), 1e-9 * length);
}

TEST(Learner, SaysWhatIsWrong) {
    LearnerOptions options = tiny_options();
    options.threads = 0;
    EXPECT_THROW((void)make_learner(options), UsageError);
    options = tiny_options("nothing");
    EXPECT_THROW((void)make_learner(options), UsageError);
    options = tiny_options();
    options.augment = "crop";
    EXPECT_THROW((void)make_learner(options), UsageError);
    options = tiny_options();
    options.data = "/nonexistent.h5";
    EXPECT_THROW((void)make_learner(options), FileError);
    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    EXPECT_THROW((void)learner->start({.slice = slice(test::kTinyTrain),
                                       .parameters = learner->release(0, 0, kLr, false)}),
                 UsageError);
}

TEST(IdleLearner, LearnsNothingAndAnswersAtOnce) {
    const std::unique_ptr<Learner> learner = std::make_unique<Learner>();
    const Learner::Released released = learner->release(3, 0.5, kLr, true);
    const auto work = learner->start({.slice = slice(0), .parameters = released});
    EXPECT_NE(work, 0U);
    const std::vector<Learner::Job> jobs(3);
    EXPECT_EQ(learner->start_group(jobs).size(), 3U);
    EXPECT_TRUE(learner->outcome(work).finite);
    EXPECT_EQ(test::apply(*learner, {.version = 1}, {{.work = work}}), 0);
    EXPECT_EQ(learner->evaluate(0).samples, 0);
    EXPECT_EQ(learner->digest(), std::make_unique<Learner>()->digest());
}

}  // namespace
}  // namespace cohort
