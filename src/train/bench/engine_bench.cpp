#include "train/bench/engine_bench.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/core/statistics.hpp"
#include "cohort/model/slow_layers.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/tensor/device.hpp"
#include "core/system/process_usage.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/product_speed.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

struct SyntheticBatch {
    std::vector<float> samples;
    std::vector<std::int32_t> tokens;  ///< in place of the samples
    std::vector<std::int32_t> labels;
    std::vector<float> targets;  ///< of a regression
    std::vector<std::int64_t> ids;
};

SyntheticBatch make_batch(const Graph& graph, std::int64_t size) {
    SyntheticBatch batch;
    Rng rng(1, RngPurpose::kTest);
    const auto elements = static_cast<std::size_t>(size * graph.input_shape().elements());
    check_host_memory(elements * sizeof(float), "bench engine", "a smaller --batch");
    const auto draw = [&](std::vector<std::int32_t>& numbers, std::int64_t end) {
        std::generate(numbers.begin(), numbers.end(), [&] {
            return static_cast<std::int32_t>(rng.next_below(static_cast<std::uint32_t>(end)));
        });
    };
    const auto draw_normal = [&](std::vector<float>& numbers, std::size_t count) {
        numbers.resize(count);
        std::generate(numbers.begin(), numbers.end(), [&] { return rng.next_normal(); });
    };
    if (graph.reads_tokens()) {
        batch.tokens.resize(elements);
        draw(batch.tokens, graph.vocabulary());
    } else {
        draw_normal(batch.samples, elements);
    }
    if (graph.loss() == LossKind::kMeanSquaredError) {
        draw_normal(batch.targets, static_cast<std::size_t>(size * graph.outputs()));
    }
    batch.labels.resize(static_cast<std::size_t>(size * graph.positions()));
    draw(batch.labels, graph.classes());
    batch.ids.resize(static_cast<std::size_t>(size));
    std::iota(batch.ids.begin(), batch.ids.end(), std::int64_t{0});
    return batch;
}

/// Sequences of 30 positions of 64 features, one layer of 64 units.
Graph make_lstm_layer() {
    GraphBuilder net("lstm-layer", Shape{30, 64});
    const Value x = net.last_position(net.lstm(net.input(), {.hidden = 64}));
    return net.finish(net.linear(x, {.features = 10}));
}

Graph make_bench_model(const std::string& name) {
    if (name == "lstm-layer") {
        return make_lstm_layer();
    }
    if (reads_text(name)) {
        return make_model(name, {.shape = Shape{35}, .classes = 28782, .tokens = true});
    }
    if (name == "resnet50") {
        return make_model(name, Shape{3, 224, 224}, 1000);
    }
    return make_model(name, name == "lenet" ? Shape{1, 28, 28} : Shape{3, 32, 32}, 10);
}

}  // namespace

EngineBenchResult bench_engine(const EngineBenchOptions& options) {
    return bench_engine(options, make_bench_model(options.model));
}

EngineBenchResult bench_engine(const EngineBenchOptions& options, Graph graph) {
    const std::unique_ptr<Device> device = make_device(options.device, options.threads);
    Replica replica(
        std::move(graph), *device,
        replica_options(*device, options.precision, options.deterministic, options.tuning_file));
    replica.initialise(1);
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.momentum = 0.9, .weight_decay = 5e-4}, layout, 0,
                                          layout.total(), *device, replica.stream());
    const SyntheticBatch data = make_batch(replica.graph(), options.batch);
    const BatchView batch{.samples = data.samples.data(),
                          .labels = data.labels.data(),
                          .sample_ids = data.ids.data(),
                          .size = options.batch,
                          .targets = data.targets.data(),
                          .tokens = data.tokens.data()};
    std::optional<SlowLayerWatch> watch;
    if (options.slow_layers) {
        watch.emplace(replica, options.threads, product_flops_per_second);
    }
    EngineBenchResult result;
    const SteadyClock clock;
    std::vector<double> seconds;
    for (std::int64_t step = 0; step < options.warmup_steps + options.steps; ++step) {
        if (step == options.warmup_steps && options.profile) {
            replica.set_profiling(true);
        }
        const bool watched = watch && step < options.warmup_steps;
        if (watched) {
            watch->begin();
        }
        const auto start = clock.now();
        replica.train_step(batch, 1);
        if (watched) {
            result.slow_layers += watch->end(options.batch);
        }
        optimizer->update(replica.parameters(), replica.gradients(), 1, 1e-3);
        replica.fold_batch_statistics(0.1, 1);
        replica.stream().synchronize();
        if (step >= options.warmup_steps) {
            seconds.push_back((clock.now() - start).count());
        }
    }
    const std::string description = device->description();  // "cpu: ...", "cuda:0: ..."
    result.device = description.substr(0, description.find(": "));
    result.precision = precision_on(device->kind(), options.precision);
    result.median_s = median(seconds);
    result.min_s = *std::min_element(seconds.begin(), seconds.end());
    const double samples_per_second = static_cast<double>(options.batch) / result.median_s;
    result.per_second = samples_per_second * static_cast<double>(replica.graph().positions());
    result.gflop_per_second =
        samples_per_second * replica.graph().training_flops_per_sample() * 1e-9;
    result.peak_bytes = process_peak_bytes();
    result.arena_bytes = replica.arena_bytes();
    result.steps = options.steps;
    if (options.profile) {
        result.profile = replica.profile();
    }
    if (watch) {
        result.product_gflop_per_second = 1e-9 * watch->product_flops();
    } else if (options.profile && device->kind() == DeviceKind::kCpu) {
        result.product_gflop_per_second = 1e-9 * product_flops_per_second();
    }
    return result;
}

}  // namespace cohort
