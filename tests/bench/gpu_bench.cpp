// Training steps, the optimizer and copies on a GPU (or the CPU), one JSON object per line.
//
//   gpu_bench [--device cuda] [--steps 30] [--profile] [--tuning-file FILE] CASE...
//
// CASE: MODEL:BATCH:PRECISION, e.g. resnet50:256:bf16: forward, backward and SGD with momentum 0.9
// and weight decay 5e-4 on synthetic data. On a GPU one line for each place of the samples:
// "on_device": false, pinned memory, where a loader leaves them (a byte per value of an image,
// cropped, mirrored and normalised on the GPU), copied ahead while the step before computes; and
// true, single precision in the GPU's memory from the start. Models: those of the zoo (3x32x32,
// 10 classes; resnet50 3x224x224, 1000 classes) and lstm (30 positions of 64 features, 64 units).
// Or optimizer:sgd:FLOATS, optimizer:adamw:FLOATS: updates of that many parameters beside copies of
// as many bytes.
// --profile: a second run with every layer timed, for the share of layers that are products.
// --tuning-file: where the choice of algorithms is kept, see docs/cuda.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/core/statistics.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/learning_options.hpp"
#include "cohort/optim/optimizer.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kGiga = 1'000'000'000;

struct Options {
    std::string device = "cuda";
    int steps = 30;
    int warmup = 8;
    bool profile = false;
    std::string tuning_file;
    std::vector<std::string> cases;
};

[[noreturn]] void refuse(const std::string& what) {
    fail<UsageError>({.where = "gpu_bench",
                      .what = what,
                      .expected = "MODEL:BATCH:PRECISION or optimizer:RULE:FLOATS"});
}

std::int64_t number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
        refuse("not a count: " + std::string(text));
    }
    return value;
}

std::vector<std::string> parts_of(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t colon = std::min(text.find(':', at), text.size());
        parts.push_back(text.substr(at, colon - at));
        at = colon + 1;
    }
    if (parts.size() != 3) {
        refuse("not a case: " + text);
    }
    return parts;
}

Graph make_network(const std::string& name) {
    if (name == "lstm") {
        GraphBuilder net("lstm", Shape{30, 64});
        const Value x = net.last_position(net.lstm(net.input(), {.hidden = 64}));
        return net.finish(net.linear(x, {.features = 10}));
    }
    return name == "resnet50" ? make_model(name, Shape{3, 224, 224}, 1000)
                              : make_model(name, Shape{3, 32, 32}, 10);
}

/// `count` values in the memory that copies fastest.
template <class T>
class Pinned {
public:
    Pinned(Device& device, std::size_t count, const std::function<T(std::size_t)>& value)
        : buffer_(device.allocate_host(count * sizeof(T))) {
        for (std::size_t i = 0; i < count; ++i) {
            data()[i] = value(i);
        }
    }
    [[nodiscard]] T* data() const { return static_cast<T*>(buffer_.data()); }
    [[nodiscard]] std::size_t bytes() const { return buffer_.bytes(); }

private:
    Buffer buffer_;
};

/// A batch as a loader leaves it, and its samples in the device's memory.
class BenchBatch {
public:
    BenchBatch(Device& device, Stream& stream, const Graph& graph, std::int64_t size)
        : size_(size),
          floats_(elements(graph, size)),
          as_stored_(device.kind() == DeviceKind::kCuda && graph.input_shape().rank() == 3),
          channels_(graph.input_shape()[0]),
          samples_(device, floats_, [&](std::size_t) { return rng_.next_normal(); }),
          stored_(device, as_stored_ ? floats_ : 1,
                  [&](std::size_t) { return static_cast<std::uint8_t>(rng_.next_u32() >> 24); }),
          crops_(device, count(),
                 [](std::size_t i) {
                     return ImageCrop{.mirrored = static_cast<std::int16_t>(i % 2)};
                 }),
          scales_(device, 2 * static_cast<std::size_t>(channels_),
                  [&](std::size_t i) {
                      return i < static_cast<std::size_t>(channels_) ? 127.5F : 1 / 73.9F;
                  }),
          labels_(device, count(),
                  [&](std::size_t) {
                      return static_cast<std::int32_t>(
                          rng_.next_below(static_cast<std::uint32_t>(graph.classes())));
                  }),
          ids_(device, count(), [](std::size_t i) { return static_cast<std::int64_t>(i); }),
          on_device_(device.allocate(samples_.bytes())) {
        stream.copy(on_device_.data(), samples_.data(), samples_.bytes());
        stream.synchronize();
    }
    [[nodiscard]] BatchView on_device() const { return view(on_device_.floats()); }
    [[nodiscard]] BatchView on_host(std::uint64_t serial) const {
        BatchView batch = view(samples_.data());
        batch.serial = serial;
        if (as_stored_) {
            batch.stored = {.values = stored_.data(),
                            .crops = crops_.data(),
                            .scales = scales_.data(),
                            .channels = channels_,
                            .elements = static_cast<std::int64_t>(floats_) / size_};
        }
        return batch;
    }
    /// Seconds that the host's samples alone take to the device.
    [[nodiscard]] double copy_seconds(Stream& stream) const;

private:
    static std::size_t elements(const Graph& graph, std::int64_t size) {
        return static_cast<std::size_t>(size * graph.input_shape().elements());
    }
    [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }
    [[nodiscard]] BatchView view(const float* samples) const {
        return {
            .samples = samples, .labels = labels_.data(), .sample_ids = ids_.data(), .size = size_};
    }

    Rng rng_{1, RngPurpose::kTest};
    std::int64_t size_;
    std::size_t floats_;
    bool as_stored_;
    std::int64_t channels_;
    Pinned<float> samples_;
    Pinned<std::uint8_t> stored_;
    Pinned<ImageCrop> crops_;
    Pinned<float> scales_;
    Pinned<std::int32_t> labels_;
    Pinned<std::int64_t> ids_;
    Buffer on_device_;
};

/// Copies the next step's batch ahead.
class CopyAhead final : public StepObserver {
public:
    CopyAhead(Replica& replica, const BenchBatch& batch) : replica_(replica), batch_(batch) {}
    void begun() override { replica_.prefetch(batch_.on_host(next_)); }
    [[nodiscard]] BatchView batch() { return batch_.on_host(next_++); }

private:
    Replica& replica_;
    const BenchBatch& batch_;
    std::uint64_t next_ = 1;
};

/// Seconds of f(), `times` of them.
template <class F>
std::vector<double> timed(int times, F&& f) {
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) {
        const auto start = std::chrono::steady_clock::now();
        f();
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
}

double BenchBatch::copy_seconds(Stream& stream) const {
    const void* from = as_stored_ ? static_cast<const void*>(stored_.data()) : samples_.data();
    return median(timed(5, [&] {
        stream.copy(on_device_.data(), from, as_stored_ ? stored_.bytes() : samples_.bytes());
        stream.synchronize();
    }));
}

bool is_product(const LayerProfile& layer) {
    return layer.is_convolution || layer.kind.starts_with("linear") ||
           layer.kind.starts_with("lstm");
}

/// "slowest layer kinds" and the share of products, as members of a JSON object.
std::string profile_text(Replica& replica, int steps, const std::function<void()>& step) {
    replica.set_profiling(true);
    for (int i = 0; i < steps; ++i) {
        step();
    }
    double all = 0;
    double products = 0;
    std::map<std::string, double> kinds;
    for (const LayerProfile& layer : replica.profile()) {
        const double seconds = layer.forward_s + layer.backward_s;
        all += seconds;
        products += is_product(layer) ? seconds : 0;
        kinds[layer.kind] += seconds;
    }
    replica.set_profiling(false);
    std::string text =
        fmt::format(", \"layers_s\": {:.6g}, \"product_share\": {:.4f}, \"kinds\": {{", all / steps,
                    all > 0 ? products / all : 0);
    const char* separator = "";
    for (const auto& [kind, seconds] : kinds) {
        text += fmt::format("{}\"{}\": {:.6g}", separator, kind, seconds / steps);
        separator = ", ";
    }
    return text + "}";
}

/// One case with everything that its steps need.
struct ModelCase {
    Device& device;
    const Options& options;
    std::string name;
    std::int64_t size;
    Precision precision;
};

std::string run_model(const ModelCase& one, bool on_device) {
    const Options& options = one.options;
    const std::uint64_t free_before = one.device.memory().free_bytes;
    Replica replica(make_network(one.name), one.device,
                    {.precision = one.precision, .tuning_file = options.tuning_file});
    replica.initialise(1);
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.momentum = 0.9, .weight_decay = 5e-4}, layout, 0,
                                          layout.total(), one.device, replica.stream());
    const BenchBatch batch(one.device, replica.stream(), replica.graph(), one.size);
    CopyAhead ahead(replica, batch);
    std::vector<double> own;
    const auto step = [&] {
        if (on_device) {
            replica.train_step(batch.on_device(), 1);
        } else {
            replica.train_step(ahead.batch(), 1, ahead);
        }
        own.push_back(replica.step_seconds().value_or(0));
        optimizer->update(replica.parameters(), replica.gradients(), 1, 1e-3);
        replica.fold_batch_statistics(kBatchNormMomentum, 1);
        replica.stream().synchronize();
    };
    // The first step loads libraries and chooses algorithms, the second one is recorded.
    const std::vector<double> first = timed(options.warmup, step);
    std::puts(
        fmt::format("{{\"bench\": \"first steps\", \"model\": \"{}\", \"seconds\": [{:.4g}]}}",
                    one.name, fmt::join(first, ", "))
            .c_str());
    own.clear();
    const std::vector<double> seconds = timed(options.steps, step);
    const bool recorded = replica.recorded();
    const double step_s = median(seconds);
    const double own_s = median(own);
    const double flops =
        static_cast<double>(one.size) * replica.graph().training_flops_per_sample() / step_s;
    const std::uint64_t taken = free_before - std::min(free_before, one.device.memory().free_bytes);
    const std::size_t work = replica.recorded_work();
    const std::string profile =
        options.profile ? profile_text(replica, std::max(2, options.steps / 3), step) : "";
    return fmt::format(
        "{{\"bench\": \"step\", \"model\": \"{}\", \"batch\": {}, \"precision\": \"{}\", "
        "\"on_device\": {}, \"median_s\": {:.6g}, \"min_s\": {:.6g}, \"device_s\": {:.6g}, "
        "\"input_s\": {:.6g}, \"per_second\": {:.6g}, \"tflops\": {:.4g}, "
        "\"recorded\": {}, \"recorded_work\": {}, \"arena_bytes\": {}, \"replica_bytes\": {}, "
        "\"device_bytes\": {}{}}}",
        one.name, one.size, word_of(one.precision), on_device, step_s,
        *std::min_element(seconds.begin(), seconds.end()), own_s,
        batch.copy_seconds(replica.stream()), static_cast<double>(one.size) / step_s, flops * 1e-12,
        recorded, work, replica.arena_bytes(), replica.total_bytes(), taken, profile);
}

/// Floats that an update reads and writes per parameter.
int streams_of(OptimizerKind kind) {
    return kind == OptimizerKind::kSgd ? 5 : 7;
}

std::string run_optimizer(Device& device, const Options& options, const std::string& rule,
                          std::int64_t floats) {
    const OptimizerKind kind = parse_word<OptimizerKind>(rule, "optimizer");
    const auto stream = device.create_stream();
    FlatLayout layout;
    layout.add("weight", Shape{floats}, true);
    const auto count = static_cast<std::size_t>(layout.total());
    const auto optimizer =
        make_optimizer(optimizer_options({.optimizer = kind, .weight_decay = 5e-4}), layout, 0,
                       layout.total(), device, *stream);
    const Buffer theta = device.allocate(count * sizeof(float));
    const Buffer gradient = device.allocate(count * sizeof(float));
    stream->fill_zero(theta.data(), theta.bytes());
    stream->fill_zero(gradient.data(), gradient.bytes());
    // Several at a time, so that the wait after them does not count.
    constexpr int kAtATime = 20;
    const auto update_s = median(timed(options.steps, [&] {
        for (int i = 0; i < kAtATime; ++i) {
            optimizer->update({theta.floats(), count}, {gradient.floats(), count}, 1, 1e-3);
        }
        stream->synchronize();
    }));
    const auto copy_s = median(timed(options.steps, [&] {
        for (int i = 0; i < kAtATime; ++i) {
            stream->copy(theta.data(), gradient.data(), gradient.bytes());
        }
        stream->synchronize();
    }));
    const double bytes = kAtATime * static_cast<double>(count) * sizeof(float);
    const double update_rate = bytes * streams_of(kind) / update_s;
    const double copy_rate = bytes * 2 / copy_s;
    return fmt::format(
        "{{\"bench\": \"optimizer\", \"rule\": \"{}\", \"floats\": {}, \"update_s\": {:.6g}, "
        "\"gb_per_second\": {:.5g}, \"copy_gb_per_second\": {:.5g}, \"share_of_copy\": {:.4f}}}",
        rule, floats, update_s / kAtATime, update_rate / static_cast<double>(kGiga),
        copy_rate / static_cast<double>(kGiga), update_rate / copy_rate);
}

Options parse(const std::vector<std::string>& arguments) {
    Options options;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        if (word == "--profile") {
            options.profile = true;
        } else if ((word == "--device" || word == "--steps" || word == "--warmup" ||
                    word == "--tuning-file") &&
                   i + 1 < arguments.size()) {
            const std::string& value = arguments[++i];
            if (word == "--device") {
                options.device = value;
            } else if (word == "--tuning-file") {
                options.tuning_file = value;
            } else {
                (word == "--steps" ? options.steps : options.warmup) =
                    static_cast<int>(number(value));
            }
        } else if (word.starts_with("--")) {
            refuse("unknown option " + word);
        } else {
            options.cases.push_back(word);
        }
    }
    if (options.cases.empty()) {
        refuse("no case");
    }
    return options;
}

void run(const Options& options) {
    const auto device = make_device(options.device, 2);
    std::puts(fmt::format("{{\"bench\": \"device\", \"device\": \"{}\", \"total_bytes\": {}}}",
                          device->description(), device->memory().total_bytes)
                  .c_str());
    const std::string description = device->description();  // "cuda:0: NVIDIA H100"
    const std::string place = description.substr(0, description.find(": "));
    const auto say = [&place](std::string_view line) {
        std::puts(fmt::format("{{\"device\": \"{}\", {}", place, line.substr(1)).c_str());
        std::fflush(stdout);
    };
    for (const std::string& text : options.cases) {
        const std::vector<std::string> parts = parts_of(text);
        if (parts[0] == "optimizer") {
            say(run_optimizer(*device, options, parts[1], number(parts[2])));
            continue;
        }
        const ModelCase one{*device, options, parts[0], number(parts[1]),
                            parse_word<Precision>(parts[2], "precision")};
        say(run_model(one, false));
        if (device->kind() == DeviceKind::kCuda) {
            say(run_model(one, true));
        }
    }
}

}  // namespace
}  // namespace cohort

int main(int count, char** arguments) {
    try {
        cohort::run(cohort::parse({arguments + 1, arguments + count}));
        return 0;
    } catch (const cohort::Error& error) {
        std::fputs(fmt::format("gpu_bench: {}\n", error.what()).c_str(), stderr);
        return static_cast<int>(error.exit_code());
    } catch (const std::exception& error) {
        std::fputs(fmt::format("gpu_bench: {}\n", error.what()).c_str(), stderr);
        return 1;
    }
}
