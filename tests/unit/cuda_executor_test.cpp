// The executor of whole batches, on the CPU and next to the one that runs slice by slice; what it
// asks of a stream that can record and of a support; memory that is short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "executor.hpp"
#include "loss_scale.hpp"
#include "support/reference_check.hpp"
#include "whole_batch_plan.hpp"

namespace cohort::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A stream of the CPU that says it records: what is queued meanwhile is done all the same, and a
/// recording that is queued does nothing.
class RecordingStream final : public Stream {
public:
    explicit RecordingStream(Device& device) : cpu_(device.create_stream()) {}
    void copy(void* to, const void* from, std::size_t bytes) override {
        copies_while_recording += open_ ? 1 : 0;
        cpu_->copy(to, from, bytes);
    }
    void fill_zero(void* to, std::size_t bytes) override { cpu_->fill_zero(to, bytes); }
    std::unique_ptr<Event> record() override { return cpu_->record(); }
    void wait_for(const Event& event) override { cpu_->wait_for(event); }
    void synchronize() override { cpu_->synchronize(); }
    bool begin_recording() override {
        log.push_back("begin");
        open_ = true;
        return true;
    }
    std::unique_ptr<Recording> end_recording() override {
        log.push_back("end");
        open_ = false;
        if (fails) {
            throw DeviceError("no room");
        }
        return std::make_unique<Played>(log, number_++);
    }
    std::vector<std::string> log;
    int copies_while_recording = 0;
    bool fails = false;

private:
    class Played final : public Recording {
    public:
        Played(std::vector<std::string>& log, int number) : log_(log), number_(number) {}
        void queue() override { log_.push_back("queue " + std::to_string(number_)); }

    private:
        std::vector<std::string>& log_;
        int number_;
    };
    std::unique_ptr<Stream> cpu_;
    bool open_ = false;
    int number_ = 0;
};

/// A support on the CPU: copies for casts, and an overflow while the loss scale is above a limit.
class CpuSupport final : public KernelSupport {
public:
    TensorFormat input_format(const Shape& input) const override { return {input, 1}; }
    void prepare() override {}
    StepValues* step_values() noexcept override { return &values_; }
    void refresh_weights() override { ++refreshed; }
    void load_input(const TensorFormat& format, const float* from, void* to,
                    std::int64_t samples) override {
        std::memcpy(to, from, format.sample_bytes() * static_cast<std::size_t>(samples));
    }
    void read_output(const TensorFormat& format, const void* from, float* to,
                     std::int64_t samples) override {
        std::memcpy(to, from, format.sample_bytes() * static_cast<std::size_t>(samples));
    }
    void add_into(ElementType, void* to, const void* from, std::int64_t count) override {
        cohort::add_into(static_cast<float*>(to), static_cast<const float*>(from), count);
    }
    void unscale(float*, std::int64_t) override {
        scales.push_back(values_.loss_scale);
        values_.overflow = values_.loss_scale > bearable ? 1 : 0;
    }
    std::size_t bytes() const noexcept override { return 0; }

    float bearable = 1e9F;
    int refreshed = 0;
    std::vector<float> scales;

private:
    StepValues values_;
};

/// A device with little memory, none of it real until it is taken.
class SmallDevice final : public Device {
public:
    explicit SmallDevice(std::uint64_t bytes) : bytes_(bytes), cpu_(make_cpu_device(1)) {}
    DeviceKind kind() const override { return DeviceKind::kCpu; }
    std::string description() const override { return "small"; }
    Buffer allocate(std::size_t bytes) override {
        if (bytes > bytes_) {
            throw OutOfMemory("short", bytes, bytes_);
        }
        return cpu_->allocate(bytes);
    }
    Buffer allocate_host(std::size_t bytes) override { return cpu_->allocate_host(bytes); }
    std::unique_ptr<Stream> create_stream() override { return cpu_->create_stream(); }
    DeviceMemory memory() const override { return {bytes_, bytes_}; }

private:
    std::uint64_t bytes_;
    std::unique_ptr<Device> cpu_;
};

enum class Kind { kSlices, kWhole };

struct Setup {
    Kind kind = Kind::kWhole;
    std::size_t piece_bytes = 1;
    std::uint64_t arena_bytes = std::numeric_limits<std::uint64_t>::max();
    bool with_support = false;
    bool recorded = false;
    Precision precision = Precision::kF32;
};

/// Both executors of a network on one set of flat buffers.
class Rig {
public:
    explicit Rig(const Graph& source, const Setup& setup = {})
        : graph(source),
          memory(setup.arena_bytes),
          device(make_cpu_device(1)),
          stream(*device),
          arena(memory),
          parameters(static_cast<std::size_t>(graph.parameters().total())),
          gradients(parameters.size(), 1e3F),
          state(static_cast<std::size_t>(graph.state().total())),
          batch_state(state.size(), 1e3F) {
        graph.initialise(5, parameters, state);
        ExecutorSetting setting{.graph = graph,
                                .device = *device,
                                .stream = stream,
                                .deterministic = true,
                                .recorded = setup.recorded,
                                .precision = setup.precision,
                                .support = setup.with_support ? &support : nullptr,
                                .piece_bytes = setup.piece_bytes};
        training = make(setting, setup.kind);
        setting.training = false;
        inference = make(setting, setup.kind);
    }

    BatchResult step(const OwnedBatch& batch, StepObserver* observer = nullptr) {
        return try_step(batch, observer).value();
    }
    std::optional<BatchResult> try_step(const OwnedBatch& batch, StepObserver* observer) {
        const BatchView view = batch.view();
        return training->run({.batch = &view, .seed = 9, .observer = observer}, arena);
    }
    BatchResult evaluate(const OwnedBatch& batch) {
        const BatchView view = batch.view();
        return *inference->run({.batch = &view}, arena);
    }
    std::vector<float> infer(const OwnedBatch& batch) {
        BatchView view = batch.view();
        view.labels = nullptr;
        view.targets = nullptr;
        view.sample_ids = nullptr;
        std::vector<float> logits(static_cast<std::size_t>(view.size * graph.classes()));
        inference->run({.batch = &view, .logits = logits.data()}, arena);
        return logits;
    }

    Graph graph;
    SmallDevice memory;
    std::unique_ptr<Device> device;
    RecordingStream stream;
    CpuSupport support;
    Arena arena;
    std::vector<float> parameters;
    std::vector<float> gradients;
    std::vector<float> state;
    std::vector<float> batch_state;
    std::unique_ptr<Executor> training;
    std::unique_ptr<Executor> inference;

private:
    std::unique_ptr<Executor> make(const ExecutorSetting& setting, Kind kind) {
        auto made = kind == Kind::kWhole ? make_whole_batch_executor(setting)
                                         : make_slice_executor(setting);
        made->bind({parameters.data(), gradients.data(), state.data(), batch_state.data()});
        return made;
    }
};

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
    const std::vector<Graph> graphs{make_model("mlp", Shape{1, 6, 6}, 10),
                                    make_model("lenet", Shape{1, 14, 14}, 10),
                                    make_model("resnet20", Shape{3, 16, 16}, 10),
                                    with_dropout_and_concat(), sequence_regression()};
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

/// Notes what is announced, and a copy of it at that moment; may interrupt.
class Recorder final : public StepObserver {
public:
    explicit Recorder(const Rig& rig, int interrupt_at = -1) : rig_(rig), left_(interrupt_at) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        const float* all = rig_.gradients.data();
        announced.push_back({begin, {all + begin, all + end}});
    }
    bool should_interrupt() override {
        ++asked;
        return left_-- == 0;
    }
    std::vector<std::pair<std::int64_t, std::vector<float>>> announced;
    int asked = 0;

private:
    const Rig& rig_;
    int left_;
};

std::vector<std::int64_t> backward_order(const Graph& graph) {
    std::vector<std::int64_t> begins;
    for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
        for (const int range : node->parameter_ranges) {
            begins.push_back(graph.parameters().ranges()[static_cast<std::size_t>(range)].offset);
        }
    }
    return begins;
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
    rig.step(large, &observer);
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end", "queue 0", "begin", "end", "queue 1"));
    EXPECT_EQ(rig.stream.copies_while_recording, 0);
    rig.stream.log.clear();
    rig.step(small, &observer);
    rig.step(large, &observer);
    EXPECT_THAT(rig.stream.log, ElementsAre("queue 0", "queue 1"));
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
}

TEST(Recordings, ThatFailAreDoneWithout) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .recorded = true});
    rig.stream.fails = true;
    const OwnedBatch batch = random_batch(graph, 9, 1);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    rig.step(batch);  // done twice here, where a GPU would have recorded: the batch is gone by then
    for (int again = 0; again < 3; ++again) {
        rig.gradients[0] = 7;
        rig.step(batch);
        EXPECT_EQ(rig.gradients, wanted);
    }
    EXPECT_THAT(rig.stream.log, ElementsAre("begin", "end")) << "it is tried once";
}

TEST(HalfPrecision, RepeatsAStepThatOverflowsAndAnnouncesAtItsEnd) {
    const Graph graph = make_model("mlp", Shape{1, 6, 6}, 10);
    Rig rig(graph, {.with_support = true, .precision = Precision::kF16});
    const OwnedBatch batch = random_batch(graph, 9, 1);
    rig.step(batch);
    const std::vector<float> wanted = rig.gradients;
    rig.support.scales.clear();
    rig.support.refreshed = 0;
    rig.support.bearable = 16384;
    Recorder observer(rig);
    rig.step(batch, &observer);
    EXPECT_EQ(rig.gradients, wanted);
    EXPECT_THAT(rig.support.scales, ElementsAre(65536, 32768, 16384));
    EXPECT_EQ(rig.support.refreshed, 3);
    EXPECT_EQ(observer.announced.size(), backward_order(graph).size()) << "once, not three times";
    rig.support.scales.clear();
    rig.step(random_batch(graph, 9, 2), &observer);
    EXPECT_THAT(rig.support.scales, ElementsAre(16384));
    rig.support.scales.clear();
    rig.support.bearable = 0;  // infinite whatever the scale
    rig.step(random_batch(graph, 9, 2), &observer);
    EXPECT_EQ(rig.support.scales.size(), 15U);
    EXPECT_EQ(rig.support.scales.back(), 1.0F) << "the numbers go out as they are";
}

TEST(HalfPrecision, ScaleHalvesDownToOneAndDoublesAfterManyGoodSteps) {
    LossScale scale;
    EXPECT_EQ(scale.value(), 65536.0F);
    for (float wanted = 32768.0F; wanted >= 1; wanted /= 2) {
        EXPECT_TRUE(scale.repeat_after(true));
        EXPECT_EQ(scale.value(), wanted);
    }
    EXPECT_FALSE(scale.repeat_after(true)) << "at 1 nothing is repeated";
    EXPECT_EQ(scale.value(), 1.0F);
    const auto good = [&](int steps) {
        for (int i = 0; i < steps; ++i) {
            EXPECT_FALSE(scale.repeat_after(false));
        }
    };
    good(1999);
    EXPECT_EQ(scale.value(), 1.0F);
    EXPECT_FALSE(scale.repeat_after(true));
    good(1999);
    EXPECT_EQ(scale.value(), 1.0F) << "an overflow begins the count again";
    good(1);
    EXPECT_EQ(scale.value(), 2.0F);
    good(30 * 2000);
    EXPECT_EQ(scale.value(), 16777216.0F);
}

TEST(ShortMemory, NamesTheLargestBatchThatFitsAndIsOverWhenABatchFits) {
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    constexpr std::uint64_t kBytes = 4 << 20;
    Rig rig(graph, {.arena_bytes = kBytes});
    rig.step(random_batch(graph, 2, 1));
    const std::vector<float> wanted = rig.gradients;
    const std::vector<float> parameters = rig.parameters;
    std::int64_t fits = 0;
    try {
        rig.step(random_batch(graph, 1000, 1));
        FAIL() << "1000 samples in 4 MiB";
    } catch (const OutOfMemory& error) {
        EXPECT_GT(error.asked, kBytes);
        EXPECT_EQ(error.free, kBytes);
        const std::string text = error.what();
        EXPECT_THAT(text, HasSubstr("a batch of 1000"));
        EXPECT_THAT(text, HasSubstr("4.0 MiB free"));
        const std::string before = "at most ";
        fits = std::stoll(text.substr(text.find(before) + before.size()));
    }
    EXPECT_GT(fits, 2);
    EXPECT_LT(fits, 1000);
    EXPECT_EQ(rig.parameters, parameters);
    rig.step(random_batch(graph, fits, 1));
    EXPECT_THROW(rig.step(random_batch(graph, fits + 2, 1)), OutOfMemory);
    rig.step(random_batch(graph, 2, 1));
    EXPECT_EQ(rig.gradients, wanted);
}

TEST(ShortMemory, SaysWhenNotEvenOneSampleFits) {
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    Rig rig(graph, {.arena_bytes = 1000});
    try {
        rig.step(random_batch(graph, 3, 1));
        FAIL();
    } catch (const OutOfMemory& error) {
        EXPECT_THAT(error.what(), HasSubstr("not even a batch of 1"));
    }
}

TEST(Plan, KeepsApartWhatLivesTogether) {
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    CompiledGraph compiled({.graph = graph, .device = *device, .stream = *stream});
    const WholeBatchPlan plan = plan_whole_batch(compiled, 16, true);
    std::size_t all = 0;
    for (std::size_t value = 0; value < plan.activations.size(); ++value) {
        for (const Place* place : {&plan.activations[value], &plan.gradients[value]}) {
            EXPECT_EQ(place->offset % WholeBatchPlan::kAlignment, 0U);
            all += place->sample_bytes * 16;
        }
    }
    EXPECT_LT(plan.arena_bytes, all * 3 / 4) << "gradients take the place of activations";
    EXPECT_EQ(largest_batch_within(compiled, plan, true, plan.arena_bytes), 16);
    const std::int64_t half = largest_batch_within(compiled, plan, true, plan.arena_bytes / 2);
    EXPECT_GE(half, 4);
    EXPECT_LE(half, 8);
    EXPECT_EQ(largest_batch_within(compiled, plan, true, 1000), 0);
}

TEST(Plan, CutsPiecesBehindTheLossAndWhereGradientsAreFinal) {
    const Graph graph = make_model("vgg16", Shape{3, 32, 32}, 10);
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    CompiledGraph compiled({.graph = graph, .device = *device, .stream = *stream});
    const WholeBatchPlan plan = plan_whole_batch(compiled, 2, false);
    const std::vector<Piece> pieces = cut_pieces(graph, plan.steps, std::size_t{4} << 20);
    ASSERT_GE(pieces.size(), 6U);
    EXPECT_LE(pieces.size(), 12U);
    EXPECT_EQ(plan.steps[pieces[0].end - 1].step.kind, StepKind::kLoss);
    std::size_t at = 0;
    for (const Piece& piece : pieces) {
        EXPECT_EQ(piece.begin, at);
        EXPECT_GT(piece.end, piece.begin);
        at = piece.end;
    }
    EXPECT_EQ(at, plan.steps.size());
}

}  // namespace
}  // namespace cohort::test
