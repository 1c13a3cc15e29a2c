#include "train/bench/exchange_bench.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "cohort/core/error.hpp"
#include "cohort/core/statistics.hpp"
#include "cohort/tensor/device.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "comm/base/mpi_baseline.hpp"
#include "core/system/launch_env.hpp"
#include "core/system/process_usage.hpp"
#include "core/tensor/cpu_team.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

constexpr std::uint16_t kReport = 1;

/// Sums of small whole numbers are exact in any order.
void fill_contribution(std::span<float> to, int rank) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<float>((rank + 1) * static_cast<int>(i % 5));
    }
}

bool is_sum(std::span<const float> sums, int ranks) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const int wanted = ranks * (ranks + 1) / 2 * static_cast<int>(i % 5);
        if (sums[i] != static_cast<float>(wanted)) {
            return false;
        }
    }
    return true;
}

/// The GPU of a rank whose sums are made there.
struct RankDevice {
    explicit RankDevice(const World& world)
        : device(make_device(device_of_this_rank("cuda", world.map(), world.rank()), 1)),
          stream(device->create_stream()) {}
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
};

/// `to`, which may lie in device memory, becomes `from`, and the other way round.
void copy(Stream* stream, std::span<float> to, std::span<const float> from) {
    if (stream == nullptr) {
        std::ranges::copy(from, to.begin());
    } else {
        stream->copy(to.data(), from.data(), from.size_bytes());
        stream->synchronize();
    }
}

/// Zeros are summed while the clock runs: they stay what they are, so nothing is written between
/// two rounds. The last round sums numbers. @param stream  null: the buffer lies in host memory
ExchangeReport run_all_reduce(World& world, AllReduce& ring, Stream* stream, std::int64_t floats,
                              std::int64_t repetitions) {
    const SteadyClock clock;
    ExchangeReport report;
    std::vector<float> numbers(static_cast<std::size_t>(floats));
    std::uint64_t round = 0;
    for (std::int64_t i = 0; i < kExchangeWarmup; ++i) {
        copy(stream, ring.begin(++round), numbers);
        ring.finish({});
        (void)ring.wait().value();
    }
    const double cpu = process_cpu_seconds();
    for (std::int64_t i = 0; i < repetitions; ++i) {
        const auto start = clock.now();
        (void)ring.begin(++round);
        ring.finish({});
        (void)ring.wait().value();
        report.seconds.push_back((clock.now() - start).count());
    }
    report.cpu_s = process_cpu_seconds() - cpu;
    const std::span<float> buffer = ring.begin(++round);
    fill_contribution(numbers, world.rank());
    copy(stream, buffer, numbers);
    ring.finish({});
    (void)ring.wait().value();
    copy(stream, numbers, buffer);
    report.correct = is_sum(numbers, world.size());
    return report;
}

/// @param report  without seconds: times are those of another rank
ExchangeBenchResult result_of(int rank, int ranks, std::int64_t bytes, const ExchangeReport& report,
                              std::int64_t repetitions) {
    ExchangeBenchResult result{.rank = rank,
                               .ranks = ranks,
                               .bytes = bytes,
                               .cpu_s = report.cpu_s / static_cast<double>(repetitions),
                               .correct = report.correct};
    if (!report.seconds.empty()) {
        result.median_s = median(report.seconds);
        result.min_s = std::ranges::min(report.seconds);
    }
    return result;
}

ExchangeBenchResult bench_all_reduce(World& world, const ExchangeBenchOptions& options) {
    std::vector<int> members(static_cast<std::size_t>(world.size()));
    std::iota(members.begin(), members.end(), 0);
    const std::int64_t floats = (options.bytes + 3) / 4;
    AllReduceOptions ring_options{.algorithm = parse_all_reduce(options.algorithm),
                                  .bucket_bytes = options.bucket_bytes};
    std::optional<RankDevice> gpu;
    if (ring_options.algorithm == AllReduceAlgorithm::kNccl) {
        gpu.emplace(world);
        ring_options.scope.device = gpu->device.get();
        ring_options.scope.stream = gpu->stream.get();
    }
    const std::unique_ptr<AllReduce> ring = make_all_reduce(world, members, floats, ring_options);
    ExchangeReport report = run_all_reduce(
        world, *ring, ring->on_device() ? gpu->stream.get() : nullptr, floats, options.repetitions);
    if (world.rank() == 0) {
        add_reports(world, world.size() - 1, 0, report);
    } else {
        send_report(world, report);
    }
    ExchangeBenchResult result =
        result_of(world.rank(), world.size(), 4 * floats, report, options.repetitions);
    result.algorithm = word_of(ring->algorithm());
    return result;
}

ExchangeBenchResult bench_own(const ExchangeBenchOptions& options) {
    const bool servers = options.op == "push-pull";
    World world({.servers = servers ? options.servers : 0, .chunk_bytes = options.chunk_bytes});
    try {
        ExchangeBenchResult result =
            servers ? result_of(world.rank(), world.size(), push_pull_bytes(options.bytes),
                                run_push_pull(world, options), options.repetitions)
                    : bench_all_reduce(world, options);
        world.finalize();
        return result;
    } catch (const Error& error) {
        world.abort(error.exit_code(), error.what());
    }
}

ExchangeBenchResult bench_plain(const ExchangeBenchOptions& options) {
    const bool streams = options.op == "streams";
    const std::int64_t unit = std::int64_t{64} * (streams ? options.servers : 1);
    const BaselinePattern pattern{.bytes = (options.bytes + unit - 1) / unit * unit,
                                  .servers = options.servers,
                                  .warmup = static_cast<int>(kExchangeWarmup),
                                  .repetitions = static_cast<int>(options.repetitions)};
    const BaselineTimes times =
        streams ? mpi_baseline_streams(pattern) : mpi_baseline_all_reduce(pattern);
    return result_of(times.rank, times.ranks, pattern.bytes,
                     {times.seconds, times.cpu_seconds, times.correct}, options.repetitions);
}

void check(const ExchangeBenchOptions& options) {
    constexpr std::string_view kOps[] = {"allreduce", "push-pull", "mpi-allreduce", "streams"};
    if (std::ranges::find(kOps, options.op) == std::end(kOps)) {
        fail<UsageError>({.where = "--op",
                          .what = "unknown exchange",
                          .expected = "allreduce, push-pull, mpi-allreduce or streams",
                          .got = options.op});
    }
    (void)parse_all_reduce(options.algorithm);
}

}  // namespace

void send_report(World& world, ExchangeReport report) {
    world.messenger().send({0, Port::kCoordinator}, Port::kWorker, kReport,
                           encode(std::move(report)));
}

void add_reports(World& world, int count, int first, ExchangeReport& all) {
    const auto wait = world.operations().begin("reports", 0);
    Mailbox& mailbox = world.messenger().mailbox(Port::kCoordinator);
    for (int i = 0; i < count;) {
        const std::optional<Message> message = mailbox.receive(Clock::Seconds(60));
        if (!message) {
            continue;
        }
        ++i;
        auto report = decode<ExchangeReport>(message->body);
        all.cpu_s += report.cpu_s;
        all.correct = all.correct && report.correct;
        if (message->from.rank == first) {
            all.seconds = std::move(report.seconds);
        }
    }
}

ExchangeBenchResult bench_exchange(const ExchangeBenchOptions& options) {
    check(options);
    const auto ranks = static_cast<std::uint64_t>(read_launch_env().host_ranks);
    check_host_memory(2 * ranks * static_cast<std::uint64_t>(options.bytes), "bench exchange",
                      "fewer --bytes");
    const bool own = options.op == "allreduce" || options.op == "push-pull";
    ExchangeBenchResult result = own ? bench_own(options) : bench_plain(options);
    const bool all_reduce = options.op == "allreduce" || options.op == "mpi-allreduce";
    const double workers = result.ranks - options.servers;
    const double traffic = all_reduce ? 2.0 * (result.ranks - 1) / result.ranks : 2 * workers;
    if (result.rank == 0) {
        result.bus_gb_per_s = 1e-9 * traffic * static_cast<double>(result.bytes) / result.median_s;
    }
    return result;
}

}  // namespace cohort
