#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/model/slow_layers.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/tensor/option_list.hpp"
#include "core/units.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/bench/engine_bench.hpp"
#include "train/bench/exchange_bench.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSteps = 1'000'000'000;

Json to_json(const EngineBenchOptions& options, const EngineBenchResult& result) {
    Json line{{"bench", "engine"},
              {"model", options.model},
              {"batch", options.batch},
              {"threads", options.threads},
              {"device", result.device},
              {"precision", word_of(result.precision)},
              {"steps", result.steps},
              {"per_second", result.per_second},
              {"median_s", result.median_s},
              {"min_s", result.min_s},
              {"gflop_per_second", result.gflop_per_second},
              {"peak_bytes", result.peak_bytes},
              {"arena_bytes", result.arena_bytes}};
    if (result.product_gflop_per_second > 0) {
        line["product_gflop_per_second"] = result.product_gflop_per_second;
    }
    for (const LayerProfile& layer : result.profile) {
        Json implementations = Json::object();
        for (const auto& [part, name] : layer.implementations) {
            implementations[part] = name;
        }
        line["profile"].push_back(Json{{"name", layer.name},
                                       {"kind", layer.kind},
                                       {"convolution", layer.is_convolution},
                                       {"forward_s", layer.forward_s},
                                       {"backward_s", layer.backward_s},
                                       {"forward_flops", layer.flops.forward},
                                       {"backward_flops", layer.flops.backward},
                                       {"implementations", implementations}});
    }
    return line;
}

/// Share of one core's product of matrices that a layer reaches; empty where it has no products.
/// The times are those of one thread, which has its share of the batch.
std::string product_share(const EngineBenchOptions& options, const EngineBenchResult& result,
                          double flops_per_sample, double seconds) {
    if (flops_per_sample <= 0 || seconds <= 0 || result.product_gflop_per_second <= 0) {
        return "";
    }
    const auto samples =
        static_cast<double>(samples_of_thread(options.batch, options.threads) * result.steps);
    return fmt::format(
        "{:.0f} %", 1e-7 * flops_per_sample * samples / seconds / result.product_gflop_per_second);
}

/// Per layer, slowest first, with its share of the timed steps.
void print_profile(const EngineBenchOptions& options, const EngineBenchResult& result) {
    std::vector<LayerProfile> layers = result.profile;
    const auto total = [](const LayerProfile& layer) { return layer.forward_s + layer.backward_s; };
    std::sort(layers.begin(), layers.end(),
              [&](const LayerProfile& a, const LayerProfile& b) { return total(a) > total(b); });
    double all = 0;
    double convolutions = 0;
    for (const LayerProfile& layer : layers) {
        all += total(layer);
        convolutions += layer.is_convolution ? total(layer) : 0;
    }
    const double steps = static_cast<double>(result.steps);
    print_line("{:<32} {:<16} {:>11} {:>11} {:>7} {:>8} {:>8}  {}", "layer", "kind", "forward ms",
               "backward ms", "share", "product", "product", "by");
    for (const LayerProfile& layer : layers) {
        print_line("{:<32} {:<16} {:>11.3f} {:>11.3f} {:>5.1f} % {:>8} {:>8}  {}", layer.name,
                   layer.kind, 1e3 * layer.forward_s / steps, 1e3 * layer.backward_s / steps,
                   100 * total(layer) / all,
                   product_share(options, result, layer.flops.forward, layer.forward_s),
                   product_share(options, result, layer.flops.backward, layer.backward_s),
                   implementations_of(layer));
    }
    print_line(
        "convolutions {:.1f} %, other layers {:.1f} % of {:.2f} ms per step "
        "inside layers",
        100 * convolutions / all, 100 - 100 * convolutions / all, 1e3 * all / steps);
    if (result.product_gflop_per_second > 0) {
        print_line(
            "product: the share, forward and backward, of one core's product of matrices, "
            "{:.1f} GF/s here",
            result.product_gflop_per_second);
    }
}

class BenchEngineCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        value(app, "--model", options_.model,
              "Network; resnet50 gets 3x224x224, lenet 1x28x28, lstm, transformer and gpt 35 of "
              "28782 "
              "tokens, lstm-layer 30 positions of 64, others 3x32x32")
            ->type_name("NAME");
        value(app, "--batch", options_.batch, "Samples per step", kBatchLimits);
        value(app, "--threads", options_.threads, "Threads that compute; 0: all cores",
              kThreadsLimits);
        value(app, "--steps", options_.steps, "Timed steps", {.least = 1, .most = kMostSteps});
        value(app, "--warmup-steps", options_.warmup_steps, "Steps before the timed ones",
              {.least = 0, .most = kMostSteps});
        each_device_option(options_, DeclareOptions{app}, "What computes");
        app.add_flag("--deterministic", options_.deterministic,
                     "Without choices by measurement: the same bits in every run");
        app.add_flag("--profile", options_.profile, "Time of every layer; costs some percent");
        app.add_flag("--json", json_, "Print one JSON object on one line");
    }

    ExitCode run(const CommandContext& context) override {
        if (options_.threads == 0) {
            options_.threads = context.env.cores;
        }
        options_.tuning_file = tuning_file(context.env);
        const EngineBenchResult result = bench_engine(options_);
        if (json_) {
            print_line("{}", to_json(options_, result).dump());
            return ExitCode::kDone;
        }
        print_line(
            "{}, batch {}, {}: {:.1f} {}/s, step {:.2f} ms "
            "(fastest {:.2f} ms) over {} steps; peak {}, activations {}",
            options_.model, options_.batch, counted(options_.threads, "thread"), result.per_second,
            reads_text(options_.model) ? "tokens" : "samples", 1e3 * result.median_s,
            1e3 * result.min_s, result.steps, format_bytes(result.peak_bytes),
            format_bytes(result.arena_bytes));
        if (options_.profile) {
            print_profile(options_, result);
        }
        return ExitCode::kDone;
    }

private:
    EngineBenchOptions options_;
    bool json_ = false;
};

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostExchanges = 1'000'000;

Json to_json(const ExchangeBenchOptions& options, const ExchangeBenchResult& result) {
    Json line{{"bench", "exchange"},
              {"op", options.op},
              {"ranks", result.ranks},
              {"bytes", result.bytes},
              {"repetitions", options.repetitions},
              {"median_s", result.median_s},
              {"min_s", result.min_s},
              {"bus_gb_per_s", result.bus_gb_per_s},
              {"cpu_s", result.cpu_s},
              {"correct", result.correct}};
    if (options.op == "allreduce") {
        line["algorithm"] = result.algorithm;
        line["bucket_bytes"] = options.bucket_bytes;
    }
    if (options.op == "push-pull" || options.op == "streams") {
        line["servers"] = options.servers;
    }
    if (options.op == "push-pull") {
        line["chunk_bytes"] = options.chunk_bytes;
        line["threads"] = options.threads;
    }
    return line;
}

class BenchExchangeCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        value(app, "--op", options_.op,
              "allreduce: the ring; push-pull: parameter servers, all ranks but theirs are "
              "workers; for comparison with plain MPI: mpi-allreduce, streams")
            ->type_name("NAME");
        value(app, "--bytes", options_.bytes, "Parameters that are exchanged",
              {.least = 4, .most = std::int64_t{1} << 40});
        value(app, "--repetitions", options_.repetitions, "Timed exchanges",
              {.least = 1, .most = kMostExchanges});
        value(app, "--servers", options_.servers, "push-pull, streams: ranks that are servers",
              {.least = 1, .most = kMostPlaces});
        value(app, "--algorithm", options_.algorithm,
              "allreduce: auto, ring, ordered, mpi, or nccl between GPUs")
            ->check(one_of({"auto", "ring", "ordered", "mpi", "nccl"}));
        value(app, "--bucket-bytes", options_.bucket_bytes, "allreduce: size of a bucket",
              {.least = 64, .most = std::int64_t{1} << 40});
        value(app, "--chunk-bytes", options_.chunk_bytes, "push-pull: size of a message",
              {.least = 64, .most = std::int64_t{1} << 30});
        value(app, "--threads", options_.threads, "push-pull: threads of each server",
              kSomeThreadsLimits);
        app.add_flag("--json", json_, "Print one JSON object on one line");
    }

    ExitCode run(const CommandContext& context) override {
        check_one_world(context.env);
        const ExchangeBenchResult result = bench_exchange(options_);
        if (result.rank == 0) {
            print(result);
        }
        return result.correct ? ExitCode::kDone : ExitCode::kNumerical;
    }

private:
    void print(const ExchangeBenchResult& result) const {
        if (json_) {
            print_line("{}", to_json(options_, result).dump());
            return;
        }
        print_line(
            "{}, {} ranks, {}: {:.3f} ms (fastest {:.3f} ms), bus {:.2f} GB/s, "
            "CPU {:.3f} ms on all ranks together, sums {}",
            options_.op, result.ranks, format_bytes(static_cast<std::uint64_t>(result.bytes)),
            1e3 * result.median_s, 1e3 * result.min_s, result.bus_gb_per_s, 1e3 * result.cpu_s,
            result.correct ? "correct" : "WRONG");
    }

    ExchangeBenchOptions options_;
    bool json_ = false;
};

}  // namespace

void add_bench_commands(const CommandGroup& all) {
    const CommandGroup bench = all.group("bench", "Measure parts of the program");
    bench.add<BenchEngineCommand>("engine", "Time of training steps on synthetic data");
    bench.add<BenchExchangeCommand>("exchange",
                                    "Time of the exchange between the ranks that mpirun starts");
}

}  // namespace cohort
