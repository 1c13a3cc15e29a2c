// Steps that a worker takes on its own between two pushes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "support/train/local_rounds.hpp"
#include "support/train/worker_rig.hpp"
#include "train/worker/local_steps.hpp"

namespace cohort {
namespace {

using test::LoneReplica;
using test::WorkerRig;

constexpr double kLr = 0.05;
constexpr std::int64_t kEach = 12;  // samples of a worker's step

/// Workers without their loops: what they compute is called by the test.
struct Workers {
    explicit Workers(int count, double momentum, const std::string& model = "smallcnn")
        : rig(model, count, 1) {
        rig.job.optimizer.momentum = momentum;
        rig.job.optimizer.weight_decay = 0.01;
        for (int worker = 0; worker < count; ++worker) {
            const int rank = rig.network.map().rank_of_worker(worker);
            contexts.push_back(std::make_unique<WorkerContext>(
                CommContext{rig.network.messenger(rank), rig.network.operations(rank),
                            rig.network.map()},
                rig.job, rig.environment, worker));
            contexts.back()->replica().initialise(3);
            steps.push_back(std::make_unique<LocalSteps>(*contexts.back(), floats()));
        }
    }
    [[nodiscard]] std::int64_t floats() const {
        return rig.job.graph.parameters().total() + rig.job.graph.state().total();
    }
    [[nodiscard]] TrainableModel& replica(int worker) {
        return contexts[static_cast<std::size_t>(worker)]->replica();
    }
    std::uint64_t generation = 0;  ///< of the next deltas
    /// The worker's delta on `samples` samples from `position` on; empty: given up.
    std::vector<float> delta(int worker, std::int64_t position, std::int64_t samples, int h,
                             AllReduce* group = nullptr, std::uint64_t round = 1,
                             const std::function<bool()>& give_up = {}) {
        std::vector<float> delta(static_cast<std::size_t>(floats()));
        const auto index = static_cast<std::size_t>(worker);
        const LoadedBatch batch = rig.batch(position, samples);
        const WorkOrder work{
            .work = Work::kDelta, .steps = h, .lr = kLr, .group = {}, .generation = generation};
        result = steps[index]->run(batch, work, group, round, delta, give_up);
        if (!result) {
            delta.clear();
        }
        return delta;
    }
    /// The deltas of all workers in a group of all, each on a part of `samples` per step.
    std::vector<std::vector<float>> group_deltas(const std::vector<std::int64_t>& samples, int h,
                                                 std::uint64_t round = 1) {
        std::vector<int> ranks;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            ranks.push_back(rig.network.map().rank_of_worker(static_cast<int>(i)));
        }
        std::vector<std::vector<float>> deltas(
            samples.size(), std::vector<float>(static_cast<std::size_t>(floats())));
        results.assign(samples.size(), std::nullopt);
        std::vector<LoadedBatch> batches;
        std::int64_t position = 0;
        for (const std::int64_t mine : samples) {
            batches.push_back(rig.batch(position, mine));
            position += mine;
        }
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            threads.emplace_back([&, i] {
                const auto group = rounds.factory(ranks[i])(ranks, floats(), {});
                results[i] =
                    steps[i]->run(batches[i], {.work = Work::kDelta, .steps = h, .lr = kLr},
                                  group.get(), round, deltas[i], give_up_of(i));
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        return deltas;
    }
    [[nodiscard]] std::function<bool()> give_up_of(std::size_t worker) const {
        return static_cast<int>(worker) == quitter ? [] { return true; } : std::function<bool()>();
    }

    WorkerRig rig;
    test::LocalRounds rounds;
    std::vector<std::unique_ptr<WorkerContext>> contexts;
    std::vector<std::unique_ptr<LocalSteps>> steps;
    std::optional<LocalSteps::Result> result;
    std::vector<std::optional<LocalSteps::Result>> results;
    int quitter = -1;  ///< gives up its group steps
};

/// One process that trains on batches in turn.
struct Lone : LoneReplica {
    explicit Lone(Workers& like)
        : LoneReplica(like.rig.job.graph),
          optimizer(make_optimizer(like.rig.job.optimizer, replica.graph().parameters(), 0,
                                   replica.graph().parameters().total(), *device,
                                   replica.stream())),
          seed(like.rig.job.options.seed) {
        replica.initialise(3);
    }
    /// A step on the mean gradient of these batches, weighted by samples.
    void step(const std::vector<LoadedBatch>& batches) {
        std::vector<double> sum(replica.gradients().size());
        std::int64_t samples = 0;
        for (const LoadedBatch& batch : batches) {
            replica.train_step(view_of(batch), seed);
            for (std::size_t i = 0; i < sum.size(); ++i) {
                sum[i] +=
                    static_cast<double>(batch.size()) * static_cast<double>(replica.gradients()[i]);
            }
            samples += batch.size();
        }
        std::transform(sum.begin(), sum.end(), replica.gradients().begin(), [&](double value) {
            return static_cast<float>(value / static_cast<double>(samples));
        });
        optimizer->update(replica.parameters(), replica.gradients(), 1, kLr);
    }
    std::unique_ptr<Optimizer> optimizer;
    std::uint64_t seed;
};

void expect_near(std::span<const float> got, std::span<const float> wanted, double tolerance) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], wanted[i], tolerance) << i;
    }
}

std::vector<float> copy_of(std::span<const float> values) {
    return {values.begin(), values.end()};
}

class LocalStepsMomentum : public testing::TestWithParam<double> {};

/// Post-local SGD with h = 1 is synchronous SGD, with momentum that stays from lease to lease.
TEST_P(LocalStepsMomentum, TheMeanOfSingleStepsIsTheSynchronousUpdate) {
    constexpr int kWorkers = 3;
    Workers workers(kWorkers, GetParam());
    Lone lone(workers);
    std::vector<float> theta = copy_of(lone.replica.parameters());
    for (int round = 0; round < 3; ++round) {
        std::vector<LoadedBatch> batches;
        std::vector<double> mean(theta.size());
        for (int worker = 0; worker < kWorkers; ++worker) {
            const std::int64_t position = kEach * (kWorkers * (round % 2) + worker);
            std::copy(theta.begin(), theta.end(), workers.replica(worker).parameters().begin());
            const std::vector<float> delta = workers.delta(worker, position, kEach, 1);
            EXPECT_EQ(copy_of(workers.replica(worker).parameters()), theta);
            for (std::size_t i = 0; i < mean.size(); ++i) {
                mean[i] += static_cast<double>(delta[i]) / kWorkers;
            }
            batches.push_back(workers.rig.batch(position, kEach));
        }
        lone.step(batches);
        for (std::size_t i = 0; i < theta.size(); ++i) {
            theta[i] = static_cast<float>(theta[i] + mean[i]);
        }
        expect_near(theta, lone.replica.parameters(), 1e-6);
    }
}

TEST_P(LocalStepsMomentum, AGroupOfAllTakesTheSynchronousStep) {
    Workers workers(3, GetParam());
    Lone lone(workers);
    const std::vector<float> start = copy_of(lone.replica.parameters());
    const std::vector<std::int64_t> samples = {12, 20, 7};  // weighted by samples
    for (std::uint64_t round = 1; round <= 2; ++round) {
        const std::vector<float> before = copy_of(lone.replica.parameters());
        std::vector<LoadedBatch> batches;
        std::int64_t position = 0;
        for (const std::int64_t mine : samples) {
            batches.push_back(workers.rig.batch(position, mine));
            position += mine;
        }
        lone.step(batches);
        const auto deltas = workers.group_deltas(samples, 1, round);
        for (std::size_t worker = 0; worker < deltas.size(); ++worker) {
            EXPECT_EQ(deltas[worker], deltas[0]);
            ASSERT_TRUE(workers.results[worker]);
            EXPECT_EQ(workers.results[worker]->result.samples, samples[worker]);
            EXPECT_TRUE(workers.results[worker]->finite);
        }
        std::vector<float> after(before);
        for (std::size_t i = 0; i < after.size(); ++i) {
            after[i] += deltas[0][i];
        }
        expect_near(after, lone.replica.parameters(), 1e-6);
        for (int worker = 0; worker < 3; ++worker) {
            std::copy(lone.replica.parameters().begin(), lone.replica.parameters().end(),
                      workers.replica(worker).parameters().begin());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(, LocalStepsMomentum, testing::Values(0.0, 0.9),
                         [](const auto& one) { return one.param == 0 ? "None" : "Heavy"; });

TEST(LocalSteps, SeveralStepsAreThoseOfALoneReplica) {
    Workers workers(1, 0.9);
    Lone lone(workers);
    const std::vector<float> start = copy_of(lone.replica.parameters());
    constexpr int kSteps = 4;
    constexpr std::int64_t kSamples = 30;  // pieces of 7, 8, 7, 8
    const LoadedBatch all = workers.rig.batch(0, kSamples);
    const auto each = static_cast<std::int64_t>(all.samples().size()) / kSamples;
    std::vector<double> statistics(lone.replica.state().size());
    double loss = 0;
    for (int step = 0; step < kSteps; ++step) {
        const std::int64_t begin = kSamples * step / kSteps;
        const std::int64_t end = kSamples * (step + 1) / kSteps;
        BatchView piece = view_of(all);
        piece.samples += begin * each;
        piece.labels += begin;
        piece.sample_ids += begin;
        piece.size = end - begin;
        loss += lone.replica.train_step(piece, lone.seed).loss_sum;
        for (std::size_t i = 0; i < statistics.size(); ++i) {
            statistics[i] += static_cast<double>(end - begin) / kSamples *
                             static_cast<double>(lone.replica.batch_state()[i]);
        }
        lone.optimizer->update(lone.replica.parameters(), lone.replica.gradients(), 1, kLr);
    }
    const std::vector<float> delta = workers.delta(0, 0, kSamples, kSteps);
    ASSERT_TRUE(workers.result);
    EXPECT_EQ(workers.result->result.samples, kSamples);
    EXPECT_DOUBLE_EQ(workers.result->result.loss_sum, loss);
    double squares = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
        ASSERT_EQ(delta[i], lone.replica.parameters()[i] - start[i]);
        squares += static_cast<double>(delta[i]) * static_cast<double>(delta[i]);
    }
    EXPECT_NEAR(workers.result->squares, squares, 1e-9 * squares);
    ASSERT_GT(squares, 0);
    for (std::size_t i = 0; i < statistics.size(); ++i) {
        EXPECT_NEAR(delta[start.size() + i], statistics[i], 1e-5);
    }
    EXPECT_EQ(copy_of(workers.replica(0).parameters()), start);
    EXPECT_GT(workers.result->compute_s, 0);
}

TEST(LocalSteps, ALeaseShorterThanTheStepsSkipsEmptyPieces) {
    Workers workers(1, 0, "mlp");
    const std::vector<float> delta = workers.delta(0, 0, 2, 4);
    ASSERT_TRUE(workers.result);
    EXPECT_EQ(workers.result->result.samples, 2);
    EXPECT_EQ(workers.delta(0, 0, 2, 2), delta);
}

TEST(LocalSteps, GivingUpLeavesTheParametersAsTheyWere) {
    Workers workers(1, 0.9);
    const std::vector<float> start = copy_of(workers.replica(0).parameters());
    int asked = 0;
    (void)workers.delta(0, 0, kEach, 1, nullptr, 1, [&] { return ++asked < 0; });
    const int all = asked;
    ASSERT_GE(all, 2);
    for (const int until : {1, all, all + 1, 2 * all, 3 * all}) {
        asked = 0;
        EXPECT_TRUE(workers.delta(0, 0, 3 * kEach, 3, nullptr, 1, [&] { return ++asked == until; })
                        .empty());
        EXPECT_EQ(asked, until) << "nothing is computed after that";
        EXPECT_EQ(copy_of(workers.replica(0).parameters()), start);
    }
}

TEST(LocalSteps, ForgettingStartsWithoutMomentum) {
    Workers workers(1, 0.9);
    const std::vector<float> first = workers.delta(0, 0, kEach, 1);
    EXPECT_NE(workers.delta(0, 0, kEach, 1), first);
    workers.steps[0]->forget();
    EXPECT_EQ(workers.delta(0, 0, kEach, 1), first);
}

TEST(LocalSteps, AnotherGenerationStartsWithoutMomentumAndSoDoesWhoGaveUp) {
    Workers workers(1, 0.9);
    const std::vector<float> first = workers.delta(0, 0, kEach, 1);
    EXPECT_NE(workers.delta(0, 0, kEach, 1), first);
    workers.generation = 1;
    EXPECT_EQ(workers.delta(0, 0, kEach, 1), first);
    EXPECT_NE(workers.delta(0, 0, kEach, 1), first);
    EXPECT_TRUE(workers.delta(0, 0, kEach, 1, nullptr, 1, [] { return true; }).empty());
    EXPECT_EQ(workers.delta(0, 0, kEach, 1), first);
}

TEST(LocalSteps, WhatIsNotFiniteIsSaidAndNotRemembered) {
    Workers workers(1, 0.9);
    const std::vector<float> first = workers.delta(0, 0, kEach, 1);
    workers.steps[0]->forget();
    const std::vector<float> start = copy_of(workers.replica(0).parameters());
    workers.replica(0).parameters()[0] = std::numeric_limits<float>::quiet_NaN();
    (void)workers.delta(0, 0, 2 * kEach, 2);
    ASSERT_TRUE(workers.result);
    EXPECT_FALSE(workers.result->finite);
    std::copy(start.begin(), start.end(), workers.replica(0).parameters().begin());
    EXPECT_EQ(workers.delta(0, 0, kEach, 1), first);
}

TEST(LocalSteps, WhoGivesUpInAGroupEndsItForAll) {
    Workers workers(3, 0.9);
    workers.quitter = 1;
    const std::vector<float> start = copy_of(workers.replica(0).parameters());
    (void)workers.group_deltas({12, 12, 12}, 3);
    for (int worker = 0; worker < 3; ++worker) {
        EXPECT_FALSE(workers.results[static_cast<std::size_t>(worker)]);
        EXPECT_EQ(copy_of(workers.replica(worker).parameters()), start);
    }
}

TEST(LocalSteps, AMemberWithNothingLeftTakesPartInTheGroup) {
    Workers workers(2, 0.9);
    const auto deltas = workers.group_deltas({12, 1}, 2);  // its first piece is empty
    EXPECT_EQ(deltas[0], deltas[1]);
    ASSERT_TRUE(workers.results[1]);
    EXPECT_EQ(workers.results[1]->result.samples, 1);
}

}  // namespace
}  // namespace cohort
