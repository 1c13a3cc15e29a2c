// The executor of whole batches, on the CPU and next to the one that runs slice by slice, and what
// it asks of a stream that can record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cohort/model/zoo.hpp"
#include "layers/model/recent_sizes.hpp"
#include "support/gpu/whole_batch_rig.hpp"

namespace cohort::test {
namespace {

using testing::ElementsAre;

/// Relative to the largest value wanted.
void expect_near(const std::vector<float>& got, const std::vector<float>& wanted,
                 const char* what) {
    ASSERT_EQ(got.size(), wanted.size());
    float scale = 0;
    float error = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        scale = std::max(scale, std::abs(wanted[i]));
        error = std::max(error, std::abs(got[i] - wanted[i]));
    }
    EXPECT_LE(error, 2e-5F * scale) << what;
}

void expect_same_step(Rig& whole, Rig& slices, const OwnedBatch& batch) {
    SCOPED_TRACE(whole.graph.name() + ", batch " + std::to_string(batch.view().size));
    const BatchResult got = whole.step(batch);
    const BatchResult wanted = slices.step(batch);
    EXPECT_NEAR(got.loss_sum, wanted.loss_sum, 1e-5 * std::max(1.0, wanted.loss_sum));
    EXPECT_EQ(got.correct, wanted.correct);
    EXPECT_EQ(got.samples, wanted.samples);
    expect_near(whole.gradients, slices.gradients, "gradients");
    expect_near(whole.batch_state, slices.batch_state, "batch statistics");
    expect_near(whole.infer(batch), slices.infer(batch), "logits");
    const BatchResult evaluated = whole.evaluate(batch);
    EXPECT_NEAR(evaluated.loss_sum, slices.evaluate(batch).loss_sum,
                1e-5 * std::max(1.0, wanted.loss_sum));
}

Graph with_dropout_and_concat() {
    GraphBuilder net("branches", Shape{3, 8, 8});
    const Value x = net.relu(net.conv(net.input(), {.channels = 8, .padding = 1}));
    const Value a = net.conv(x, {.channels = 8, .padding = 1});
    const Value b = net.max_pool(x, {.kernel = 3, .stride = 1, .padding = 1});
    const Value c = net.concat({net.add(a, x), b, x});  // x is read three times
    return net.finish(net.linear(net.dropout(net.flatten(c), 0.4F), {.features = 5}));
}

Graph sequence_regression() {
    GraphBuilder net("sequence", Shape{7, 4});
    const Value x = net.lstm(net.input(), {.hidden = 6});
    return net.finish_regression(net.linear(x, {.features = 3}));
}

TEST(WholeBatch, IsTheSlicesOfAllBatchSizesInTurn) {
    const std::vector<Graph> graphs{
        make_model("mlp", Shape{1, 6, 6}, 10),
        make_model("lenet", Shape{1, 14, 14}, 10),
        make_model("resnet20", Shape{3, 16, 16}, 10),
        with_dropout_and_concat(),
        sequence_regression(),
        make_model("gpt:6,2,3", {.shape = Shape{4}, .classes = 9, .tokens = true})};
    for (const Graph& graph : graphs) {
        for (const bool with_support : {false, true}) {
            Rig whole(graph, {.kind = Kind::kWhole, .with_support = with_support});
            Rig slices(graph, {.kind = Kind::kSlices});
            for (const std::int64_t size : {5, 24, 3, 5}) {
                expect_same_step(whole, slices, random_batch(graph, size, 1));
            }
        }
    }
}

TEST(WholeBatch, AnnouncesEveryGradientOnceInBackwardOrderWhenItIsFinal) {
    const Graph graph = make_model("resnet20", Shape{3, 8, 8}, 10);
    for (const std::size_t piece_bytes :
         {std::size_t{1}, std::size_t{100000}, std::size_t{1} << 30}) {
        Rig rig(graph, {.piece_bytes = piece_bytes});
        Recorder recorder(rig);
        rig.step(random_batch(graph, 4, 1), &recorder);
        std::vector<std::int64_t> begins;
        for (const auto& [begin, values] : recorder.announced) {
            begins.push_back(begin);
            EXPECT_TRUE(std::equal(values.begin(), values.end(), rig.gradients.begin() + begin));
        }
        EXPECT_EQ(begins, backward_order(graph));
        EXPECT_GE(recorder.asked, piece_bytes == 1 ? 40 : 2);
    }
}

TEST(WholeBatch, IsInterruptedAnywhereAndTheNextStepIsRight) {
    const Graph graph = with_dropout_and_concat();
    const OwnedBatch batch = random_batch(graph, 6, 1);
    Rig rig(graph);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    int places = 0;
    for (bool finished = false; !finished; ++places) {
        ASSERT_LT(places, 100);
        Recorder observer(rig, places);
        finished = rig.try_step(batch, &observer).has_value();
        EXPECT_EQ(rig.training->seconds().has_value(), finished);
        rig.step(batch);
        ASSERT_EQ(rig.gradients, wanted) << "interrupted at " << places;
    }
    EXPECT_GE(places, 4);
}

TEST(WholeBatch, ProfilesEveryLayer) {
    Rig rig(make_model("lenet", Shape{1, 28, 28}, 10));
    rig.training->set_profiling(true);
    rig.step(random_batch(rig.graph, 8, 1));
    std::vector<LayerProfile> profile(rig.graph.nodes().size());
    rig.training->add_profile(profile);
    double sum = 0;
    for (const LayerProfile& layer : profile) {
        EXPECT_GE(layer.forward_s, 0);
        sum += layer.forward_s + layer.backward_s;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, rig.training->seconds().value());
}

TEST(Recordings, AreMadeInTheSecondRunOfASizeAndQueuedFromThenOn) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.piece_bytes = std::size_t{1} << 30, .with_support = true, .recorded = true});
    Recorder observer(rig);
    const OwnedBatch large = random_batch(graph, 9, 1);
    const OwnedBatch small = random_batch(graph, 4, 1);
    rig.step(large, &observer);
    EXPECT_TRUE(rig.stream.log.empty()) << "libraries are loaded, algorithms chosen";
    EXPECT_FALSE(rig.training->recorded());
    rig.step(large, &observer);
    EXPECT_TRUE(rig.training->recorded());
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end", "queue 0", "begin", "end", "queue 1"));
    EXPECT_EQ(rig.stream.copies_while_recording, 0);
    rig.stream.log.clear();
    rig.step(small, &observer);
    EXPECT_FALSE(rig.training->recorded());
    rig.step(large, &observer);
    EXPECT_TRUE(rig.training->recorded());
    EXPECT_THAT(rig.stream.log, ElementsAre("queue 0", "queue 1"));
    rig.stream.log.clear();
    Recorder impatient(rig, 1);
    EXPECT_FALSE(rig.try_step(large, &impatient).has_value());
    EXPECT_FALSE(rig.training->recorded()) << "the step was interrupted";
    EXPECT_THAT(rig.stream.log, ElementsAre("queue 0"));
    rig.stream.log.clear();
    rig.step(large);  // nobody observes: one piece, not run before
    rig.step(large);
    rig.step(large);
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end", "queue 2", "queue 2"));
    rig.stream.log.clear();
    rig.step(random_batch(graph, 200, 1));  // the arena grows
    rig.step(large, &observer);
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end", "queue 3", "begin", "end", "queue 4"));
    rig.stream.log.clear();
    rig.training->set_profiling(true);
    rig.step(large, &observer);
    EXPECT_TRUE(rig.stream.log.empty()) << "layers are timed";
    EXPECT_FALSE(rig.training->recorded());
}

TEST(Recordings, AreKeptOfTheSizesThatRanLast) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .recorded = true, .recent_sizes = 3});
    rig.step(random_batch(graph, 50, 1));  // the arena grows no more
    const auto twice = [&](std::int64_t size) {
        const OwnedBatch batch = random_batch(graph, size, 1);
        rig.step(batch);
        rig.step(batch);
        EXPECT_TRUE(rig.training->recorded());
    };
    for (const std::int64_t size : {10, 11, 12, 10, 13}) {  // 11 goes for 13
        twice(size);
    }
    EXPECT_EQ(rig.stream.recordings, 3);
    for (const std::int64_t size : {10, 12, 13}) {
        rig.step(random_batch(graph, size, 1));
        EXPECT_TRUE(rig.training->recorded()) << size;
    }
    rig.step(random_batch(graph, 11, 1));
    EXPECT_FALSE(rig.training->recorded());
    EXPECT_EQ(rig.stream.recordings, 2) << "10 went for 11";
}

TEST(RecentSizes, TheOneUnusedForLongestGoes) {
    RecentSizes sizes(2);
    EXPECT_EQ(sizes.use(5), std::nullopt);
    EXPECT_EQ(sizes.use(6), std::nullopt);
    EXPECT_EQ(sizes.use(5), std::nullopt);
    EXPECT_EQ(sizes.use(7), 6);
    EXPECT_EQ(sizes.use(7), std::nullopt);
    EXPECT_EQ(sizes.use(6), 5);
}

/// Further steps with the batch compute what one has.
void expect_again(Rig& rig, const OwnedBatch& batch, const std::vector<float>& wanted) {
    for (int again = 0; again < 3; ++again) {
        rig.gradients[0] = 7;
        rig.step(batch);
        EXPECT_EQ(rig.gradients, wanted);
        EXPECT_FALSE(rig.training->recorded());
    }
}

TEST(Recordings, ThatFailAreDoneWithout) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .recorded = true});
    rig.stream.fails = true;
    const OwnedBatch batch = random_batch(graph, 9, 1);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    rig.step(batch);  // done twice here, where a GPU would have recorded: the batch is gone by then
    expect_again(rig, batch, wanted);
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end")) << "it is tried once";
}

TEST(Recordings, ThatCannotBeBegunAreDoneWithout) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .recorded = true});
    rig.stream.refuses = true;
    const OwnedBatch batch = random_batch(graph, 9, 1);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    expect_again(rig, batch, wanted);
    EXPECT_THAT(rig.stream.log, ElementsAre("begin")) << "nothing to end; it is tried once";
}

/// A recording reads the ids where they lie on the device: without new ones it would draw by old.
TEST(Recordings, OfANetworkThatDrawsAreNotQueuedWithoutIds) {
    const Graph graph = with_dropout_and_concat();
    Rig rig(graph, {.with_support = true, .recorded = true});
    const OwnedBatch batch = random_batch(graph, 4, 1);
    for (int run = 0; run < 3; ++run) {
        rig.step(batch);
    }
    rig.stream.log.clear();
    BatchView without = batch.view();
    without.sample_ids = nullptr;
    EXPECT_THROW(rig.training->run({.batch = &without, .seed = 9}, rig.arena), std::logic_error);
    EXPECT_THAT(rig.stream.log, ElementsAre());
    rig.step(batch);
    EXPECT_THAT(rig.stream.log, ElementsAre("queue 0"));
    EXPECT_EQ(rig.infer(batch).size(), 20U) << "nothing is drawn then, ids are not needed";
}

}  // namespace
}  // namespace cohort::test
