// Training steps, the optimizer and copies on a GPU (or the CPU), one JSON object per line.
//
//   gpu_bench [--device cuda] [--steps 30] [--profile] CASE...
//
// CASE: MODEL:BATCH:PRECISION, e.g. resnet50:256:bf16: forward, backward and SGD with momentum 0.9
// and weight decay 5e-4 on synthetic data that lies in pinned host memory, as a loader leaves it.
// Models: those of the zoo (3x32x32, 10 classes; resnet50 3x224x224, 1000 classes) and lstm (30
// positions of 64 features, 64 units). Or optimizer:sgd:FLOATS, optimizer:adamw:FLOATS: updates of
// that many parameters beside copies of as many bytes.
// --profile: a second run with every layer timed, for the share of layers that are products.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
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

/// A batch in the memory that copies fastest.
struct PinnedBatch {
    PinnedBatch(Device& device, const Graph& graph, std::int64_t size)
        : samples(device.allocate_host(static_cast<std::size_t>(size) *
                                       static_cast<std::size_t>(graph.input_shape().elements()) *
                                       sizeof(float))),
          labels(static_cast<std::size_t>(size)),
          ids(static_cast<std::size_t>(size)) {
        Rng rng(1, RngPurpose::kTest);
        const std::size_t count = samples.bytes() / sizeof(float);
        std::generate_n(samples.floats(), count, [&] { return rng.next_normal(); });
        std::generate(labels.begin(), labels.end(), [&] {
            return static_cast<std::int32_t>(
                rng.next_below(static_cast<std::uint32_t>(graph.classes())));
        });
        std::iota(ids.begin(), ids.end(), std::int64_t{0});
    }
    [[nodiscard]] BatchView view() const {
        return {.samples = samples.floats(),
                .labels = labels.data(),
                .sample_ids = ids.data(),
                .size = static_cast<std::int64_t>(labels.size())};
    }
    Buffer samples;
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> ids;
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

/// Seconds that the samples alone take to the device.
double input_seconds(Device& device, Stream& stream, const PinnedBatch& batch) {
    const Buffer there = device.allocate(batch.samples.bytes());
    return median(timed(5, [&] {
        stream.copy(there.data(), batch.samples.data(), there.bytes());
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

std::string run_model(Device& device, const Options& options, const std::string& name,
                      std::int64_t size, Precision precision) {
    const std::uint64_t free_before = device.memory().free_bytes;
    Replica replica(make_network(name), device, {.precision = precision});
    replica.initialise(1);
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.momentum = 0.9, .weight_decay = 5e-4}, layout, 0,
                                          layout.total(), device, replica.stream());
    const PinnedBatch batch(device, replica.graph(), size);
    std::vector<double> own;
    const auto step = [&] {
        replica.train_step(batch.view(), 1);
        own.push_back(replica.step_seconds().value_or(0));
        optimizer->update(replica.parameters(), replica.gradients(), 1, 1e-3);
        replica.fold_batch_statistics(kBatchNormMomentum, 1);
        replica.stream().synchronize();
    };
    timed(options.warmup, step);
    own.clear();
    const std::vector<double> seconds = timed(options.steps, step);
    const bool recorded = replica.recorded();
    const double step_s = median(seconds);
    const double own_s = median(own);
    const double flops =
        static_cast<double>(size) * replica.graph().training_flops_per_sample() / step_s;
    const std::uint64_t taken = free_before - std::min(free_before, device.memory().free_bytes);
    const std::string profile =
        options.profile ? profile_text(replica, std::max(2, options.steps / 3), step) : "";
    return fmt::format(
        "{{\"bench\": \"step\", \"model\": \"{}\", \"batch\": {}, \"precision\": \"{}\", "
        "\"median_s\": {:.6g}, \"min_s\": {:.6g}, \"device_s\": {:.6g}, \"input_s\": {:.6g}, "
        "\"per_second\": {:.6g}, \"tflops\": {:.4g}, \"arena_bytes\": {}, \"replica_bytes\": {}, "
        "\"device_bytes\": {}, \"recorded\": {}{}}}",
        name, size, word_of(precision), step_s, *std::min_element(seconds.begin(), seconds.end()),
        own_s, input_seconds(device, replica.stream(), batch), static_cast<double>(size) / step_s,
        flops * 1e-12, replica.arena_bytes(), replica.total_bytes(), taken, recorded, profile);
}

/// Floats that an update reads and writes per parameter, see docs/cuda.md.
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
        } else if ((word == "--device" || word == "--steps" || word == "--warmup") &&
                   i + 1 < arguments.size()) {
            const std::string& value = arguments[++i];
            if (word == "--device") {
                options.device = value;
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
    for (const std::string& text : options.cases) {
        const std::vector<std::string> parts = parts_of(text);
        const std::string line = parts[0] == "optimizer"
                                     ? run_optimizer(*device, options, parts[1], number(parts[2]))
                                     : run_model(*device, options, parts[0], number(parts[1]),
                                                 parse_word<Precision>(parts[2], "precision"));
        std::puts(line.c_str());
        std::fflush(stdout);
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
