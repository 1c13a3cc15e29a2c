
#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/units.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/bench/exchange_bench.hpp"

namespace cohort {
namespace {

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
            ->check(CLI::IsMember({"auto", "ring", "ordered", "mpi", "nccl"}));
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

std::unique_ptr<Command> make_bench_exchange_command() {
    return std::make_unique<BenchExchangeCommand>();
}

}  // namespace cohort
