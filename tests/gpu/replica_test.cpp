// How a replica runs on every backend: batch sizes in turn, recorded and not, the same bits twice,
// observers, interruptions, dropout's keys, time, and gradients that are slopes of the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "cohort/model/zoo.hpp"
#include "support/core/temp_folder.hpp"
#include "support/gpu/gpu_backend.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

class OnBackend : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }

    /// Parameters away from what is neutral.
    [[nodiscard]] static std::unique_ptr<OwnedReplica> ready(const Graph& graph,
                                                             const ReplicaOptions& options = {}) {
        auto owned = GetParam().replica(graph, options);
        randomise(owned->replica, 1);
        return owned;
    }
};

INSTANTIATE_TEST_SUITE_P(Backends, OnBackend, ::testing::ValuesIn(all_backends()), backend_name);

/// Convolutions, a residual block, dropout, pooling and linear layers.
Twin mixed_network() {
    TwinBuilder net(Shape{3, 8, 7});
    Value x = net.relu(
        net.batch_norm(net.conv(net.input(), {.channels = 32, .padding = 1, .bias = false})));
    const Value y = net.batch_norm(net.conv(x, {.channels = 32, .padding = 1, .bias = false}));
    x = net.dropout(net.relu(net.add(y, x)), 0.25F);
    x = net.pool(x, PoolKind::kAverage, {3, 2, 1});
    x = net.relu(net.linear(net.flatten(x), {.features = 20}));
    return net.finish(net.linear(x, {.features = 5}));
}

/// All that a step leaves behind.
struct Outcome {
    BatchResult result;
    std::vector<float> gradients;
    std::vector<float> batch_state;
};

Outcome outcome(Replica& replica, const BatchResult& result) {
    return {result, host_copy(replica, replica.gradients()),
            host_copy(replica, replica.batch_state())};
}

Outcome step(Replica& replica, const OwnedBatch& batch, std::uint64_t seed = 1) {
    return outcome(replica, replica.train_step(batch.view(), seed));
}

void expect_same_bits(const Outcome& got, const Outcome& wanted, const std::string& what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(got.result.loss_sum, wanted.result.loss_sum);
    EXPECT_EQ(got.result.correct, wanted.result.correct);
    EXPECT_EQ(got.gradients, wanted.gradients);
    EXPECT_EQ(got.batch_state, wanted.batch_state);
}

TEST_P(OnBackend, TakesBatchSizesInTurn) {
    const Twin twin = mixed_network();
    for (const bool deterministic : {true, false}) {
        const auto owned = GetParam().replica(twin.graph, {.deterministic = deterministic});
        expect_matches(twin, owned->replica, {5, 24, 3, 5, 24, 24, 1, 5}, limits(GetParam(), 10));
    }
}

TEST_P(OnBackend, RecordedStepsHaveTheBitsOfOthers) {
    const Twin twin = mixed_network();
    const auto recorded = ready(twin.graph, {.deterministic = true, .recorded = true});
    const auto plain = ready(twin.graph, {.deterministic = true, .recorded = false});
    std::uint64_t seed = 0;
    std::set<std::int64_t> seen;
    for (const std::int64_t size : {6, 6, 6, 6, 9, 9, 9, 6, 40, 40, 6, 6}) {
        // Another batch, seed and epoch each time: they must not be part of what is recorded.
        OwnedBatch batch = random_batch(twin.graph, size, ++seed);
        batch.epoch = static_cast<std::uint32_t>(seed % 3);
        expect_same_bits(step(recorded->replica, batch, seed), step(plain->replica, batch, seed),
                         "step " + std::to_string(seed));
        EXPECT_EQ(recorded->replica.recorded(), GetParam().cuda && !seen.insert(size).second)
            << "a refused capture would be seen in the log alone";
        EXPECT_FALSE(plain->replica.recorded());
        EXPECT_EQ(recorded->replica.evaluate(batch.view()).loss_sum,
                  plain->replica.evaluate(batch.view()).loss_sum);
    }
}

/// Lines of the file in which choices are kept: one for each that was measured.
std::size_t choices_in(const std::string& file) {
    std::ifstream lines(file);
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(lines), std::istreambuf_iterator<char>(), '\n'));
}

TEST_P(OnBackend, SixtyBatchSizesTuneAHandfulOfTimes) {
    const TempFolder folder;
    const Twin twin = mixed_network();
    const auto owned = ready(twin.graph, {.tuning_file = folder.file("algorithms.txt")});
    const auto size_of = [](int turn) { return 10 + turn * 23 % 60; };  // each of 10..69 once
    owned->replica.train_step(random_batch(twin.graph, size_of(0), 1).view());
    const std::size_t of_one = choices_in(folder.file("algorithms.txt"));
    for (int turn = 1; turn < 60; ++turn) {
        const OwnedBatch batch = random_batch(twin.graph, size_of(turn), 1);
        const Outcome got = step(owned->replica, batch);
        if (turn % 12 == 0) {  // beside a replica that has seen no other size
            const auto fresh = ready(twin.graph);
            const Outcome wanted = step(fresh->replica, batch);
            const double limit = GetParam().precision == Precision::kF32 ? 1e-4 : 0.05;
            EXPECT_NEAR(got.result.loss_sum, wanted.result.loss_sum,
                        limit * wanted.result.loss_sum);
            // In short types other algorithms are on the other side of some kinks.
            const double off = GetParam().is_short() ? 0.16 : limits(GetParam(), 10).tolerance;
            expect_layout(twin.graph.parameters(), got.gradients,
                          {wanted.gradients.begin(), wanted.gradients.end()},
                          {.tolerance = off, .in_norm = true});
        }
    }
    if (GetParam().cuda) {  // the CPU measures nothing here by the size of a batch
        EXPECT_GT(of_one, 0U);
        EXPECT_LE(choices_in(folder.file("algorithms.txt")), 4 * of_one)
            << "10..20, ..40, ..69 and where an engine refuses a size";
    }
    const OwnedBatch last = random_batch(twin.graph, size_of(59), 1);
    owned->replica.train_step(last.view());
    EXPECT_EQ(owned->replica.recorded(), GetParam().cuda) << "sizes that ran last are recorded";
}

TEST_P(OnBackend, RecordedStepsReadTheParametersOfTheMoment) {
    const Twin twin = structure("projection_block").make();
    const auto recorded = ready(twin.graph, {.deterministic = true});
    const auto plain = ready(twin.graph, {.deterministic = true, .recorded = false});
    const OwnedBatch batch = random_batch(twin.graph, 7, 1);
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        randomise(recorded->replica, seed);
        randomise(plain->replica, seed);
        expect_same_bits(step(recorded->replica, batch), step(plain->replica, batch),
                         "parameters " + std::to_string(seed));
        EXPECT_EQ(recorded->replica.evaluate(batch.view()).loss_sum,
                  plain->replica.evaluate(batch.view()).loss_sum);
    }
}

TEST_P(OnBackend, DeterministicModeRepeatsBitForBit) {
    const Twin twin = mixed_network();
    const OwnedBatch batch = random_batch(twin.graph, 22, 1);
    const auto first = ready(twin.graph, {.deterministic = true});
    const Outcome wanted = step(first->replica, batch);
    for (int again = 0; again < 4; ++again) {
        expect_same_bits(step(first->replica, batch), wanted, "another step");
    }
    step(first->replica, random_batch(twin.graph, 9, 2));
    expect_same_bits(step(first->replica, batch), wanted, "after another batch");
    const auto second = ready(twin.graph, {.deterministic = true});
    expect_same_bits(step(second->replica, batch), wanted, "another replica");
}

TEST_P(OnBackend, DeterministicModeRepeatsForLargeSums) {
    // Weight gradients of many positions are where split sums and atomics would be used.
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    const OwnedBatch batch = random_batch(graph, 16, 1);
    const auto first = ready(graph, {.deterministic = true});
    const auto second = ready(graph, {.deterministic = true});
    const Outcome wanted = step(first->replica, batch);
    expect_same_bits(step(second->replica, batch), wanted, "another replica");
    expect_same_bits(step(second->replica, batch), wanted, "another step");
}

TEST_P(OnBackend, AStepChangesNeitherParametersNorState) {
    const Twin twin = mixed_network();
    const auto owned = ready(twin.graph);
    Replica& replica = owned->replica;
    const std::vector<float> parameters = host_copy(replica, replica.parameters());
    const std::vector<float> state = host_copy(replica, replica.state());
    step(replica, random_batch(twin.graph, 4, 1));
    EXPECT_EQ(host_copy(replica, replica.parameters()), parameters);
    EXPECT_EQ(host_copy(replica, replica.state()), state);
}

TEST_P(OnBackend, FoldsBatchStatistics) {
    const Twin twin = structure("identity_block").make();
    const auto owned = ready(twin.graph);
    Replica& replica = owned->replica;
    step(replica, random_batch(twin.graph, 6, 1));
    std::vector<float> wanted = host_copy(replica, replica.state());
    fold_batch_statistics(wanted, host_copy(replica, replica.batch_state()), 0.1, 0.5);
    replica.fold_batch_statistics(0.1, 0.5);
    EXPECT_EQ(host_copy(replica, replica.state()), wanted);
}

/// Notes what is announced, with an event and a copy at that moment.
class Recorder final : public StepObserver {
public:
    explicit Recorder(Replica& replica)
        : replica_(replica), copies_(replica.device().create_stream()) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        announced.push_back(
            {begin, end, std::vector<float>(static_cast<std::size_t>(end - begin))});
        // On another stream, as an exchange has it: behind the event, beside what follows.
        const auto event = replica_.stream().record();
        copies_->wait_for(*event);
        std::vector<float>& values = announced.back().values;
        copies_->copy(values.data(), replica_.gradients().data() + begin,
                      values.size() * sizeof(float));
    }
    void finish() { copies_->synchronize(); }

    struct Announcement {
        std::int64_t begin;
        std::int64_t end;
        std::vector<float> values;
    };
    std::vector<Announcement> announced;

private:
    Replica& replica_;
    std::unique_ptr<Stream> copies_;
};

/// The layer, counted from the first, that element of the flat buffer belongs to.
std::size_t layer_at(const Graph& graph, std::int64_t element) {
    std::size_t found = 0;
    for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
        for (const int range : graph.nodes()[node].parameter_ranges) {
            const auto at = static_cast<std::size_t>(range);
            found = graph.parameters().ranges()[at].offset <= element ? node : found;
        }
    }
    return found;
}

TEST_P(OnBackend, AnnouncesEveryGradientOnceWhenItIsFinal) {
    // Enough parameters for several groups on a GPU.
    const Graph graph = make_model("vgg16", Shape{3, 32, 32}, 10);
    const auto owned = ready(graph);
    Replica& replica = owned->replica;
    const OwnedBatch batch = random_batch(graph, 2, 1);
    for (int again = 0; again < 3; ++again) {  // plain, recorded, queued again
        assign(replica, replica.gradients(), -7.0F);
        Recorder recorder(replica);
        ASSERT_TRUE(replica.train_step(batch.view(), 1, recorder));
        recorder.finish();
        const std::vector<float> gradients = host_copy(replica, replica.gradients());
        std::vector<int> seen(gradients.size(), 0);
        auto before = graph.nodes().size();
        for (const auto& [begin, end, values] : recorder.announced) {
            EXPECT_LE(layer_at(graph, end - 1), before) << "not in backward order";
            before = layer_at(graph, begin);
            EXPECT_TRUE(std::equal(values.begin(), values.end(), gradients.begin() + begin))
                << "changed after it was announced";
            std::for_each(seen.begin() + begin, seen.begin() + end, [](int& count) { ++count; });
        }
        for (const FlatRange& range : graph.parameters().ranges()) {
            const auto begin = seen.begin() + range.offset;
            EXPECT_EQ(std::count(begin, begin + range.size, 1), range.size) << range.name;
        }
    }
}

class Interrupter final : public StepObserver {
public:
    explicit Interrupter(int after) : left_(after) {}
    bool should_interrupt() override { return left_-- == 0; }

private:
    int left_;
};

TEST_P(OnBackend, InterruptsAnywhereAndTheNextStepIsRight) {
    const Twin twin = mixed_network();
    const OwnedBatch batch = random_batch(twin.graph, 6, 1);
    const auto owned = ready(twin.graph, {.deterministic = true});
    const Outcome wanted = step(owned->replica, batch);
    int asked = 0;
    for (bool finished = false; !finished; ++asked) {
        ASSERT_LT(asked, 100);
        Interrupter observer(asked);
        const auto result = owned->replica.train_step(batch.view(), 1, observer);
        finished = result.has_value();
        EXPECT_EQ(owned->replica.step_seconds().has_value(), finished && GetParam().cuda);
        expect_same_bits(step(owned->replica, batch), wanted,
                         "after question " + std::to_string(asked));
    }
    // Before forward and where gradients are announced; f16 asks once, see docs/cuda.md.
    EXPECT_GE(asked, GetParam().precision == Precision::kF16 ? 2 : 3);
}

TEST_P(OnBackend, TakesItsTimeFromTheDevice) {
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    const auto owned = ready(graph);
    const OwnedBatch batch = random_batch(graph, 64, 1);
    for (int again = 0; again < 3; ++again) {
        const auto start = std::chrono::steady_clock::now();
        owned->replica.train_step(batch.view());
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
        const std::optional<double> own = owned->replica.step_seconds();
        ASSERT_EQ(own.has_value(), GetParam().cuda);
        if (own) {
            EXPECT_GT(*own, 0);
            EXPECT_LT(*own, wall.count() + 1e-3);
        }
    }
}

TEST_P(OnBackend, ProfilesEveryLayer) {
    const Twin twin = mixed_network();
    const auto owned = ready(twin.graph, {.deterministic = true});
    const OwnedBatch batch = random_batch(twin.graph, 8, 1);
    const Outcome wanted = step(owned->replica, batch);
    owned->replica.set_profiling(true);
    expect_same_bits(step(owned->replica, batch), wanted, "while layers are timed");
    const std::vector<LayerProfile> profile = owned->replica.profile();
    ASSERT_EQ(profile.size(), twin.graph.nodes().size());
    for (const LayerProfile& layer : profile) {
        EXPECT_GT(layer.forward_s + layer.backward_s, layer.kind == "flatten" ? -1 : 0)
            << layer.name;
    }
    EXPECT_EQ(std::count_if(profile.begin(), profile.end(),
                            [](const LayerProfile& layer) { return layer.is_convolution; }),
              2);
    owned->replica.set_profiling(false);
    expect_same_bits(step(owned->replica, batch), wanted, "afterwards");
    EXPECT_EQ(owned->replica.profile()[0].forward_s, profile[0].forward_s);
}

TEST_P(OnBackend, DropoutMasksBelongToTheSample) {
    const Twin twin = structure("dropout_everywhere").make();
    const auto owned = ready(twin.graph, {.deterministic = true});
    const std::vector<float> sample = random_batch(twin.graph, 1, 6).samples;
    const auto loss = [&](const std::vector<std::int64_t>& ids, std::uint64_t seed,
                          std::uint32_t epoch) {
        OwnedBatch batch;
        for (const std::int64_t id : ids) {
            batch.samples.insert(batch.samples.end(), sample.begin(), sample.end());
            batch.labels.push_back(1);
            batch.ids.push_back(id);
        }
        batch.epoch = epoch;
        return owned->replica.train_step(batch.view(), seed).loss_sum;
    };
    const double a = loss({3}, 11, 2);
    const double b = loss({1LL << 40}, 11, 2);
    const double sum_limit = GetParam().is_short() ? 0.05 * (a + b) : 2e-4 * (a + b) + 1e-3;
    EXPECT_NE(a, b);
    EXPECT_NEAR(loss({3, 1LL << 40}, 11, 2), a + b, sum_limit);
    EXPECT_NEAR(loss({1LL << 40, 3, 3}, 11, 2), 2 * a + b, sum_limit);
    EXPECT_NE(loss({3}, 12, 2), a) << "another seed, another mask";
    EXPECT_NE(loss({3}, 11, 3), a) << "another epoch, another mask";
}

TEST_P(OnBackend, MayBeDrivenByAnotherThreadThanMadeIt) {
    const Twin twin = mixed_network();
    const OwnedBatch batch = random_batch(twin.graph, 9, 1);
    const auto here = ready(twin.graph, {.deterministic = true});
    const auto there = ready(twin.graph, {.deterministic = true});
    Outcome elsewhere;
    std::thread([&] { elsewhere = step(there->replica, batch); }).join();
    expect_same_bits(elsewhere, step(here->replica, batch), "from another thread");
}

TEST_P(OnBackend, TwoReplicasOfOneDeviceDoNotDisturbEachOther) {
    const Twin twin = mixed_network();
    const auto owned = ready(twin.graph, {.deterministic = true});
    Replica other(twin.graph, *owned->device,
                  {.deterministic = true, .precision = GetParam().precision});
    randomise(other, 2);
    const OwnedBatch batch = random_batch(twin.graph, 9, 1);
    const Outcome first = step(owned->replica, batch);
    const Outcome second = step(other, batch);
    for (int again = 0; again < 3; ++again) {
        expect_same_bits(step(owned->replica, batch), first, "the one");
        expect_same_bits(step(other, batch), second, "the other");
    }
}

/// Central differences along the gradient, with the device's own loss.
void expect_slope(const Twin& twin, const Backend& backend) {
    const auto owned = backend.replica(twin.graph, {.deterministic = true});
    Replica& replica = owned->replica;
    randomise(replica, 4);
    const OwnedBatch batch = random_batch(twin.graph, 32, 4);
    const std::vector<float> start = host_copy(replica, replica.parameters());
    const std::vector<float> gradient = step(replica, batch).gradients;
    double squares = 0;
    for (const FlatRange& range : twin.graph.parameters().ranges()) {
        for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
            const double g = static_cast<double>(gradient[static_cast<std::size_t>(i)]);
            squares += g * g;
        }
    }
    const double norm = std::sqrt(squares);
    const double reach = 5e-3 / norm;
    const auto loss_at = [&](double distance) {
        std::vector<float> moved = start;
        for (const FlatRange& range : twin.graph.parameters().ranges()) {
            for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
                const auto at = static_cast<std::size_t>(i);
                moved[at] += static_cast<float>(distance * static_cast<double>(gradient[at]));
            }
        }
        assign(replica, replica.parameters(), moved);
        return replica.train_step(batch.view(), 1).loss_sum / 32;
    };
    const double slope = (loss_at(reach) - loss_at(-reach)) / (2 * reach);
    EXPECT_NEAR(slope, squares, 0.02 * squares);
}

TEST_P(OnBackend, GradientsAreSlopesOfTheLoss) {
    if (GetParam().precision != Precision::kF32) {
        GTEST_SKIP() << "differences of a loss that is rounded more say nothing";
    }
    for (const char* name : {"identity_block", "projection_block", "mixed_concat", "two_heads",
                             "dropout_everywhere", "logits_of_norm"}) {
        SCOPED_TRACE(name);
        expect_slope(structure(name).make(), GetParam());
    }
    TwinBuilder net(Shape{6, 5});
    const Value x = net.lstm(net.linear(net.input(), {.features = 9}), {.hidden = 12});
    expect_slope(net.finish_regression(net.linear(x, {.features = 2})), GetParam());
}

}  // namespace
}  // namespace cohort::test
