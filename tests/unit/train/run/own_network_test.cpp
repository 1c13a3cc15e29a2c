// Runs with what a program brings: its network, its samples, its hooks, initial weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/train/trainer.hpp"
#include "data/networks/model_file.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class OwnNetwork : public testing::Test {
protected:
    void SetUp() override {
        Hdf5Thread hdf5;
        write_tiny_dataset(folder.file("data.h5"), 300, 100, hdf5);
    }

    TrainOptions options(const std::string& out) const {
        TrainOptions o;
        o.data = folder.file("data.h5");
        o.out = folder.file(out);
        o.model = "smallcnn";
        o.batch = 16;
        o.lr = 0.02;
        o.threads = 1;
        o.device = "cpu";
        o.deterministic = true;
        o.checkpoint_every_s = 0;
        return o;
    }

    static TrainSummary train(const TrainOptions& o) { return Trainer(o, {}).run(); }

    static std::vector<float> parameters(const std::string& out) {
        Hdf5Thread hdf5;
        return read_model(out + "/model.h5", hdf5).parameters;
    }

    TempFolder folder;
};

TEST_F(OwnNetwork, IsKeptAndGoesOn) {
    TrainOptions o = options("run");
    o.model = "mine";
    o.build = [](const ModelInput& input) {
        GraphBuilder net("mine", input.shape);
        return net.finish(net.linear(net.flatten(net.input()), {.features = input.classes}));
    };
    o.samples = 64;
    o.checkpoint_every_samples = 32;
    const TrainSummary summary = train(o);
    const EvaluationReport again =
        evaluate_model(o.out + "/model.h5", o.data, "test", "cpu", 1, 32);
    EXPECT_NEAR(again.loss, summary.test->loss, 1e-6) << "the file holds the network";

    o.resume = true;
    o.samples = 128;
    EXPECT_EQ(train(o).progress.samples_applied, 128);
    o.build = [](const ModelInput& input) {
        GraphBuilder net("mine", input.shape);
        return net.finish(
            net.linear(net.relu(net.flatten(net.input())), {.features = input.classes}));
    };
    EXPECT_THAT([&] { train(o); },
                ThrowsMessage<FileError>(HasSubstr("the network differs: layer 2")));
}

TEST_F(OwnNetwork, SamplesAndHooksOfAProgram) {
    struct Counter final : TrainHook {
        explicit Counter(std::int64_t& evaluations) : evaluations_(evaluations) {}
        void on_evaluation(TrainControl& /*run*/, const EvaluationReport& /*one*/) override {
            ++evaluations_;
        }
        std::int64_t& evaluations_;
    };
    Hdf5Thread hdf5;
    TrainOptions o = options("run");
    const std::string file = o.data;
    o.data = "made up";
    o.samples = 300;
    std::int64_t evaluations = 0;
    TrainEnvironment environment;
    environment.samples = [&](const std::string& group) {
        return std::shared_ptr<SampleSource>(open_dataset(file, group, hdf5));
    };
    environment.observer = [&] { return std::make_unique<Counter>(evaluations); };
    EXPECT_EQ(Trainer(o, environment).run().progress.samples_applied, 300);
    EXPECT_GT(evaluations, 0);
}

TEST_F(OwnNetwork, StartsFromTheWeightsOfAModelFile) {
    TrainOptions o = options("run");
    o.samples = 64;
    train(o);
    TrainOptions next = options("next");
    next.init = o.out + "/model.h5";
    next.samples = 16;
    next.lr = 1e-20;
    train(next);
    const std::vector<float> first = parameters(o.out);
    const std::vector<float> second = parameters(next.out);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
        ASSERT_NEAR(first[i], second[i], 1e-12) << i;
    }
}

}  // namespace
}  // namespace cohort
