// The parameter servers under workers that compute nothing and a coordinator that fires when it
// has everybody's push: tickets, staging, updates and releases as in a run with mode ssgd.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/system/process_usage.hpp"
#include "train/bench/exchange_bench.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/shards.hpp"
#include "train/server/server_loop.hpp"

namespace cohort {
namespace {

constexpr std::uint16_t kMark = 2;
constexpr double kLearningRate = 1.0 / 1024;  ///< learning rate: products with it are exact
constexpr Clock::Seconds kServersWait{60};

Graph bench_graph(std::int64_t bytes) {
    GraphBuilder net("exchange", Shape{push_pull_bytes(bytes) / 8});
    return net.finish(net.linear(net.input(), {.features = 2, .bias = false}));
}

float gradient_of(int worker, std::int64_t i) {
    return static_cast<float>((i + worker) % 7);
}

/// The next message at a port; a named wait.
Message receive(World& world, Port port, const char* what, std::uint64_t sequence, int from,
                WaitLimit limit = WaitLimit::kFatal) {
    const auto wait = world.operations().begin(
        what, sequence, [from] { return from < 0 ? std::vector<int>{} : std::vector<int>{from}; },
        limit);
    while (true) {
        if (std::optional<Message> message =
                world.messenger().mailbox(port).receive(kServersWait)) {
            return *std::move(message);
        }
    }
}

/// A worker whose gradient is always the same.
class BenchWorker final : public TransferSink {
public:
    BenchWorker(World& world, const Graph& graph)
        : world_(world),
          worker_(world.map().worker_of_rank(world.rank())),
          ranges_(cut_shards(graph, world.map().servers)),
          floats_(static_cast<std::size_t>(graph.parameters().total())),
          gradient_(std::make_shared<Buffer>(device_->allocate_host(floats_ * sizeof(float)))) {
        for (std::size_t i = 0; i < floats_; ++i) {
            gradient_->floats()[i] = gradient_of(worker_, static_cast<std::int64_t>(i));
        }
        for (Buffer& set : sets_) {
            set = device_->allocate_host(floats_ * sizeof(float));
        }
        world_.messenger().set_sink(Port::kWorker, this);
    }

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
        const auto header = decode<ParametersHeader>(announcement.body);
        const ShardRange& range = ranges_.at(static_cast<std::size_t>(header.server));
        return std::as_writable_bytes(
            set(header.version)
                .subspan(static_cast<std::size_t>(range.begin), bytes / sizeof(float)));
    }

    /// Pushes on every set of parameters but the last.
    ExchangeReport run(std::int64_t updates) {
        const SteadyClock clock;
        ExchangeReport report;
        auto last = clock.now();
        double cpu = 0;
        for (std::int64_t version = 0; version <= updates; ++version) {
            for (std::size_t server = 0; server < ranges_.size(); ++server) {
                (void)receive(world_, Port::kWorker, "parameters",
                              static_cast<std::uint64_t>(version), 0);
            }
            const auto now = clock.now();
            if (version > kExchangeWarmup) {
                report.seconds.push_back((now - last).count());
            }
            last = now;
            if (version == kExchangeWarmup) {
                cpu = process_cpu_seconds();
            }
            if (version < updates) {
                push(version);
            }
        }
        report.cpu_s = process_cpu_seconds() - cpu;
        report.correct = correct(updates);
        return report;
    }

private:
    void push(std::int64_t version) {
        const PushId id{.worker = worker_, .sequence = static_cast<std::uint64_t>(version) + 1};
        for (const ShardRange& range : ranges_) {
            const auto part =
                std::as_bytes(std::span(gradient_->floats(), floats_))
                    .subspan(static_cast<std::size_t>(range.begin) * sizeof(float),
                             static_cast<std::size_t>(range.parameters()) * sizeof(float));
            world_.messenger()
                .start_transfer({range.part, Port::kServer}, Port::kWorker,
                                static_cast<std::uint16_t>(MessageKind::kPush),
                                encode(PushHeader{id}), part, ChunkOrder::kBackward, gradient_)
                ->release(part.size());
        }
        world_.messenger().send({0, Port::kCoordinator}, Port::kWorker,
                                static_cast<std::uint16_t>(MessageKind::kTicket),
                                encode(Ticket{.push = id, .version = version, .samples = 1}));
    }

    [[nodiscard]] std::span<float> set(std::int64_t version) const {
        return {sets_[static_cast<std::size_t>(version % 2)].floats(), floats_};
    }

    /// The last two sets differ by the last update.
    [[nodiscard]] bool correct(std::int64_t updates) const {
        const std::span<const float> before = set(updates - 1);
        const std::span<const float> after = set(updates);
        for (std::size_t i = 0; i < after.size(); ++i) {
            float sum = 0;
            for (int worker = 0; worker < world_.map().workers(); ++worker) {
                sum += gradient_of(worker, static_cast<std::int64_t>(i));
            }
            if (after[i] != before[i] - static_cast<float>(kLearningRate) * sum) {
                return false;
            }
        }
        return true;
    }

    World& world_;
    int worker_;
    std::vector<ShardRange> ranges_;
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    std::size_t floats_;
    std::shared_ptr<Buffer> gradient_;
    std::array<Buffer, 2> sets_;  ///< parameters of even and odd versions
};

/// Rank 0's part: fires when all pushes are here.
class BenchCoordinator {
public:
    explicit BenchCoordinator(World& world) : world_(world) {}

    ExchangeReport run(std::int64_t updates) {
        order(MessageKind::kBegin, BeginOrder{});
        for (std::int64_t version = 0; version <= updates; ++version) {
            if (version > 0) {
                collect(version);
            }
            fire(version);
            if (version == kExchangeWarmup) {
                mark();
            }
        }
        ExchangeReport report;
        add_reports(world_, world_.map().workers(), world_.map().rank_of_worker(0), report);
        mark();
        report.cpu_s += process_cpu_seconds() - cpu_;
        add_reports(world_, world_.map().servers - 1, -1, report);
        order(MessageKind::kStop, Empty{});
        for (int server = 0; server < world_.map().servers; ++server) {
            (void)receive(world_, Port::kCoordinator, "farewells", 0, server);
        }
        return report;
    }

private:
    template <class Body>
    void order(MessageKind kind, const Body& body) {
        for (int server = 0; server < world_.map().servers; ++server) {
            world_.messenger().send({server, Port::kServer}, Port::kCoordinator,
                                    static_cast<std::uint16_t>(kind), encode(body));
        }
    }

    /// A ticket and each server's note of every worker.
    void collect(std::int64_t version) {
        const int messages = world_.map().workers() * (1 + world_.map().servers);
        for (int i = 0; i < messages; ++i) {
            (void)receive(world_, Port::kCoordinator, "pushes", static_cast<std::uint64_t>(version),
                          -1);
        }
    }

    void fire(std::int64_t version) {
        FireOrder update{.version = version, .fraction = 1, .lr = kLearningRate};
        for (std::int32_t worker = 0; worker < world_.map().workers(); ++worker) {
            update.releases.push_back({.worker = worker});
            if (version > 0) {
                update.pushes.push_back(
                    {{.worker = worker, .sequence = static_cast<std::uint64_t>(version)}, 1});
            }
        }
        order(MessageKind::kFire, update);
    }

    /// The timed part begins or ends.
    void mark() {
        cpu_ = marked_ ? cpu_ : process_cpu_seconds();
        marked_ = true;
        for (int server = 1; server < world_.map().servers; ++server) {
            world_.messenger().send({server, Port::kWorker}, Port::kCoordinator, kMark, {});
        }
    }

    World& world_;
    bool marked_ = false;
    double cpu_ = 0;
};

/// Runs a server on a thread of its own beside `work`.
void beside_server(World& world, ServerLoop& loop, const std::function<void()>& work) {
    std::thread thread([&] {
        try {
            loop.run();
        } catch (const std::exception& error) {
            world.abort(ExitCode::kPeer, error.what());
        }
    });
    work();
    thread.join();
}

}  // namespace

std::int64_t push_pull_bytes(std::int64_t bytes) noexcept {
    return (bytes + 63) / 64 * 64;
}

ExchangeReport run_push_pull(World& world, const ExchangeBenchOptions& options) {
    const Graph graph = bench_graph(options.bytes);
    const std::int64_t updates = kExchangeWarmup + options.repetitions;
    std::string met;
    ExchangeReport report;
    if (world.role() == Role::kWorker) {
        BenchWorker worker(world, graph);
        (void)world.agree(ExitCode::kDone, met);
        report = worker.run(updates);
        send_report(world, report);
        (void)world.agree(ExitCode::kDone, met);
        return report;
    }
    ServerLoop loop({world.messenger(), world.operations(), world.map()},
                    {.graph = graph, .optimizer = {.momentum = 0}, .threads = options.threads},
                    world.rank());
    (void)world.agree(ExitCode::kDone, met);
    beside_server(world, loop, [&] {
        if (world.rank() == 0) {
            report = BenchCoordinator(world).run(updates);
            return;
        }
        (void)receive(world, Port::kWorker, "start", 0, 0);
        const double cpu = process_cpu_seconds();
        // All of what is timed lies in this wait; those who take part in it have limits.
        (void)receive(world, Port::kWorker, "end", 0, 0, WaitLimit::kNone);
        send_report(world, {.cpu_s = process_cpu_seconds() - cpu});
    });
    (void)world.agree(ExitCode::kDone, met);
    return report;
}

}  // namespace cohort
