// Virtual jobs that train: the numbers are those of training in one place.
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/sched/modes.hpp"
#include "sim/job/virtual_job.hpp"
#include "support/sim/learner_run.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::tiny_file;
using test::tiny_options;
using test::VirtualRuns;

constexpr std::int64_t kBatch = 10;
constexpr int kWorkers = 4;
constexpr double kLr = 0.05;

SimulateOptions training(const VirtualRuns& runs, const std::string& mode, std::int64_t samples) {
    SimulateOptions options = runs.options(mode, kWorkers, 0);
    options.no_train = false;
    options.data = tiny_file();
    options.model = "smallcnn";
    options.batch = kBatch;
    options.samples = samples;
    options.lr = kLr;
    options.seed = 7;
    return options;
}

/// Synchronous updates with leases in the order in which they are dealt, in this thread.
TEST(Training, OfSsgdIsThatOfPlainUpdates) {
    constexpr std::int64_t kSamples = 20 * kWorkers * kBatch;
    const SampleSetInfo info = [&file = tiny_file()] {
        Hdf5Thread hdf5;
        return open_dataset(file, "train", hdf5)->info();
    }();

    const std::unique_ptr<Learner> plain = make_learner(tiny_options());
    LeaseLedger book(info, {.seed = 7}, kSamples);
    std::int64_t version = 0;
    while (!book.finished()) {
        const Learner::Released parameters = plain->release(0, 0, kLr, false);
        UpdateOrder update{.version = ++version, .learning_rate = kLr};
        std::vector<test::LearnerTerm> terms;
        std::int64_t samples = 0;
        std::vector<std::uint64_t> leases;
        for (int worker = 0; worker < kWorkers; ++worker) {
            if (const auto lease = book.take_slice(kBatch)) {
                terms.push_back(
                    {.work = plain->start(
                         {.worker = worker, .slice = lease->slice, .parameters = parameters}),
                     .coefficient = static_cast<double>(lease->slice.count),
                     .worker = worker,
                     .version = version - 1});
                samples += lease->slice.count;
                leases.push_back(lease->id);
            }
        }
        for (test::LearnerTerm& term : terms) {
            term.coefficient /= static_cast<double>(samples);
        }
        update.fraction = static_cast<double>(samples) / (kWorkers * kBatch);
        (void)test::apply(*plain, std::move(update), terms);
        for (const std::uint64_t lease : leases) {
            ASSERT_TRUE(book.mark_applied(lease));
        }
    }

    const std::unique_ptr<Learner> learner = make_learner(tiny_options());
    EventQueue queue;
    VirtualCluster cluster(queue, test::plain_profile(), kWorkers, nullptr);
    JobSpec spec;
    spec.choice.modes = {{.mode = parse_mode("ssgd", spec.setting)}};
    spec.setting.live.assign(kWorkers, true);
    spec.setting.batch = kBatch;
    spec.worker_nodes = {0, 1, 2, 3};
    spec.server_nodes = {0};
    spec.workload = test::plain_profile().workloads["plain"];
    spec.train = info;
    spec.budget_samples = kSamples;
    spec.lr = kLr;
    spec.seed = 7;
    const auto job = make_servers_job(cluster, *learner, spec);
    cluster.start();
    job->begin();
    while (!job->over()) {
        ASSERT_TRUE(queue.step());
    }
    EXPECT_EQ(job->session.counts().updates, version);
    EXPECT_EQ(learner->digest(), plain->digest()) << "bit for bit";
}

class Repeats : public testing::TestWithParam<const char*> {};

TEST_P(Repeats, OnAnyNumberOfCores) {
    VirtualRuns runs;
    runs.slow_workers({0.1, 0.13, 0.21, 0.5});
    SimulateOptions options = training(runs, GetParam(), 1200);
    options.threads = 1;
    const SimulationResult one = simulate(options, {});
    options.threads = 2;
    const SimulationResult two = simulate(options, {});
    EXPECT_EQ(one.digest, two.digest);
    EXPECT_EQ(one.samples_applied, 1200);
    EXPECT_GT(one.accuracy, 0.5) << "of four classes, in four epochs";
    EXPECT_EQ(one.accuracy, two.accuracy);
    options.seed = 8;
    EXPECT_NE(simulate(options, {}).digest, one.digest);
}

INSTANTIATE_TEST_SUITE_P(Modes, Repeats,
                         testing::Values("ssgd", "asgd", "saps:1", "ksync:3", "dcasgd", "zeno++",
                                         "hier:2:3", "localsgd:2", "kbatch-async:3"));

/// Half of a rate is that half, bit for bit: updates, local steps, look-aheads, decay.
TEST(Scale, IsThatOfTheLearningRate) {
    VirtualRuns runs;
    runs.slow_workers({0.1, 0.13, 0.21, 0.5});
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        for (const std::string mode : {"ssgd", "asgd", "quorum:3", "localsgd:2", "dcasgd"}) {
            SimulateOptions options = training(runs, mode + "@0.5", 600);
            options.optimizer = optimizer;
            options.weight_decay = 0.01;
            options.lr_schedule = "cosine:0.1+warmup:100";
            const SimulationResult scaled = simulate(options, {});
            options.mode = mode;
            EXPECT_NE(simulate(options, {}).digest, scaled.digest)
                << word_of(optimizer) << ' ' << mode;
            options.lr /= 2;
            EXPECT_EQ(simulate(options, {}).digest, scaled.digest)
                << word_of(optimizer) << ' ' << mode;
        }
    }
}

/// The velocity stays: as when the rate falls by --lr-schedule.
TEST(Scale, ChangesInTheRun) {
    VirtualRuns runs;
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        SimulateOptions options = training(runs, "ssgd", 800);
        options.optimizer = optimizer;
        const double plain = simulate(options, {}).loss;
        options.lr_schedule = "step:0.25@400";
        const double stepped = simulate(options, {}).loss;
        options.lr_schedule = "constant";
        options.mode = "";
        options.mode_schedule = "0:ssgd,400:ssgd@0.25";
        const SimulationResult changed = simulate(options, {});
        EXPECT_EQ(changed.switches.back().to, "ssgd@0.25");
        EXPECT_EQ(changed.loss, stepped) << word_of(optimizer);
        EXPECT_NE(changed.loss, plain) << word_of(optimizer);
    }
}

/// The first samples on the way; all of them near the target, where they decide, and at the end.
TEST(Evaluation, DecidesOnTheWholeTestSet) {
    VirtualRuns runs;
    SimulateOptions options = training(runs, "ssgd", 3000);
    options.eval_every_samples = 100;
    options.eval_samples = 40;
    options.target_accuracy = 0.9;
    const SimulationResult result = simulate(options, {});
    ASSERT_EQ(result.stop_reason, "target");
    ASSERT_TRUE(result.tta_virtual_s && result.samples_to_target);
    EXPECT_GE(result.accuracy, 0.9);
    EXPECT_EQ(*result.samples_to_target, result.samples_applied);
    EXPECT_DOUBLE_EQ(*result.tta_virtual_s, result.virtual_s);
    std::int64_t before = -1;
    for (const EvaluationPoint& point : result.evaluations) {
        EXPECT_TRUE(point.test_samples == 40 || point.test_samples == test::kTinyTest);
        if (point.samples_applied == before) {
            EXPECT_EQ(point.test_samples, test::kTinyTest);
        }
        before = point.samples_applied;
    }
    EXPECT_EQ(result.evaluations.back().test_samples, test::kTinyTest);

    options.eval_samples = 0;
    options.target_accuracy = 0;
    options.samples = 250;
    const SimulationResult all = simulate(options, {});
    ASSERT_EQ(all.evaluations.size(), 3U) << "after 120, 200 and 250 samples";
    EXPECT_EQ(all.evaluations.back().samples_applied, 250);
    EXPECT_FALSE(all.tta_virtual_s);
}

/// The run is the same until it ends; it ends when the accuracy that counts is there.
TEST(Evaluation, OfTheMeanStandsBesideAndDecidesIfAsked) {
    const VirtualRuns runs;
    SimulateOptions options = training(runs, "ssgd", 3000);
    options.eval_every_samples = 100;
    const SimulationResult plain = simulate(options, {});
    EXPECT_FALSE(plain.evaluations.front().average_accuracy);
    options.eval_average = 5;
    const SimulationResult both = simulate(options, {});
    EXPECT_EQ(both.digest, plain.digest) << "nothing else changes";
    ASSERT_EQ(both.evaluations.size(), plain.evaluations.size());
    const EvaluationPoint* first = nullptr;  // whose mean is good enough
    for (const EvaluationPoint& point : both.evaluations) {
        ASSERT_TRUE(point.average_accuracy && point.average_loss);
        EXPECT_GT(*point.average_loss, 0);
        if (first == nullptr && *point.average_accuracy >= 0.5) {
            first = &point;
        }
    }
    ASSERT_NE(first, nullptr);
    options.target_accuracy = 0.5;
    options.target_on = TargetOn::kAverage;
    const SimulationResult aimed = simulate(options, {});
    ASSERT_EQ(aimed.stop_reason, "target");
    EXPECT_EQ(aimed.samples_to_target.value_or(0), first->samples_applied);
    EXPECT_EQ(aimed.evaluations.back().average_accuracy, first->average_accuracy);
    EXPECT_EQ(aimed.accuracy, first->accuracy) << "at the end, of the parameters as they are";
}

/// What was reached by the last update is found out when the time is up.
TEST(Evaluation, AtTheEndIsOfTheLastUpdate) {
    const VirtualRuns runs;
    SimulateOptions options = training(runs, "ssgd", 100000);
    options.eval_every_samples = 1000000;
    options.target_accuracy = 0.3;
    constexpr double kStep = 0.1 / 64 * kBatch;
    options.virtual_limit_s = 60.5 * kStep;
    const SimulationResult result = simulate(options, {});
    ASSERT_EQ(result.stop_reason, "time");
    ASSERT_TRUE(result.tta_virtual_s);
    EXPECT_NEAR(*result.tta_virtual_s, 60 * kStep, 1e-6);
    EXPECT_EQ(result.evaluations.back().virtual_s, *result.tta_virtual_s);
    EXPECT_EQ(*result.samples_to_target, 60 * kWorkers * kBatch);
}

TEST(Divergence, EndsARun) {
    VirtualRuns runs;
    SimulateOptions options = training(runs, "asgd", 100000);
    options.lr = 1e12;
    EXPECT_EQ(simulate(options, {}).stop_reason, "diverged");
}

/// Different modes learn different things from the same samples.
TEST(Digest, TellsWhatWasLearned) {
    VirtualRuns runs;
    const SimulationResult asgd = simulate(training(runs, "asgd", 400), {});
    const SimulationResult compensated = simulate(training(runs, "dcasgd", 400), {});
    EXPECT_EQ(asgd.virtual_s, compensated.virtual_s);
    EXPECT_NE(asgd.digest, compensated.digest);
}

}  // namespace
}  // namespace cohort
