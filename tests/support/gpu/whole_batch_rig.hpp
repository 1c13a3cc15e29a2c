#pragma once

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/model/executor.hpp"
#include "support/layers/reference_check.hpp"

// Executors of one network on the CPU, with what a GPU would bring in its place.
namespace cohort::test {

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
        if (refuses) {
            throw DeviceError("no capture");
        }
        open_ = true;
        return true;
    }
    std::unique_ptr<Recording> end_recording() override {
        log.push_back("end");
        open_ = false;
        if (fails) {
            throw DeviceError("no room");
        }
        return std::make_unique<Played>(*this, number_++);
    }
    std::vector<std::string> log;
    int copies_while_recording = 0;
    int recordings = 0;    ///< that there are
    bool refuses = false;  ///< to begin
    bool fails = false;    ///< to end

private:
    class Played final : public Recording {
    public:
        Played(RecordingStream& stream, int number) : stream_(stream), number_(number) {
            ++stream_.recordings;
        }
        ~Played() override { --stream_.recordings; }
        void queue() override { stream_.log.push_back("queue " + std::to_string(number_)); }
        [[nodiscard]] std::size_t size() const override { return 1; }

    private:
        RecordingStream& stream_;
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
    void load_stored(const TensorFormat& format, const StoredSamples& from, void* to,
                     std::int64_t samples) override {
        const std::int64_t count = samples * format.sample_floats();
        for (std::int64_t i = 0; i < count; ++i) {
            static_cast<float*>(to)[i] =
                (static_cast<float>(from.values[i]) - from.scales[0]) * from.scales[from.channels];
        }
    }
    void read_output(const TensorFormat& format, const void* from, float* to,
                     std::int64_t samples) override {
        std::memcpy(to, from, format.sample_bytes() * static_cast<std::size_t>(samples));
    }
    void add_into(ElementType type, void* to, const void* from, std::int64_t count) override {
        cohort::add_into(type, to, from, count);
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
        taken_ = bytes;
        return cpu_->allocate(bytes);
    }
    Buffer allocate_host(std::size_t bytes) override { return cpu_->allocate_host(bytes); }
    std::unique_ptr<Stream> create_stream() override { return cpu_->create_stream(); }
    DeviceMemory memory() const override { return {bytes_ - taken_, bytes_}; }

private:
    std::uint64_t bytes_;
    std::uint64_t taken_ = 0;  ///< by the one buffer that an arena has at a time
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
    std::size_t recent_sizes = 16;
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
                                .piece_bytes = setup.piece_bytes,
                                .recent_sizes = setup.recent_sizes};
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
        std::vector<float> logits(static_cast<std::size_t>(view.size * graph.outputs()));
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

/// Where the ranges begin that are announced, in their order.
inline std::vector<std::int64_t> backward_order(const Graph& graph) {
    std::vector<std::int64_t> begins;
    for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
        for (const int range : node->parameter_ranges) {
            begins.push_back(graph.parameters().ranges()[static_cast<std::size_t>(range)].offset);
        }
    }
    return begins;
}

}  // namespace cohort::test
