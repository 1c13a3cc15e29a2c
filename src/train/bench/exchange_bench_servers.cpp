// The parameter servers under workers that compute nothing and a coordinator that fires when it
// has everybody's push: tickets, staging, updates and releases as in a run with mode ssgd.
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/system/process_usage.hpp"
#include "train/bench/exchange_bench.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"
#include "train/server/server_loop.hpp"
#include "train/worker/servers/push_buffers.hpp"

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
class BenchWorker {
public:
    BenchWorker(World& world, const Graph& graph)
        : world_(world),
          comm_{world.messenger(), world.operations(), world.map()},
          worker_(world.map().worker_of_rank(world.rank())),
          layout_(cut_shards(graph, world.map().servers)),
          inbox_(layout_, *device_),
          gradient_(std::make_shared<Buffer>(
              device_->allocate_host(static_cast<std::size_t>(layout_.floats()) * sizeof(float)))) {
        const std::span<float> values = layout_.all(*gradient_);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = gradient_of(worker_, static_cast<std::int64_t>(i));
        }
        comm_.messenger.set_sink(Port::kWorker, &inbox_);
    }

    /// Pushes on every set of parameters but the last.
    ExchangeReport run(std::int64_t updates) {
        const SteadyClock clock;
        ExchangeReport report;
        auto last = clock.now();
        double cpu = 0;
        for (std::int64_t version = 0; version <= updates; ++version) {
            take_parameters(version);
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
        report.correct = correct();
        return report;
    }

private:
    void take_parameters(std::int64_t version) {
        while (!inbox_.has_complete()) {
            const Message message = receive(world_, Port::kWorker, "parameters",
                                            static_cast<std::uint64_t>(version), 0);
            inbox_.arrived(decode<ParametersHeader>(message.body));
        }
        if (before_) {
            inbox_.give_back(*std::move(before_));
        }
        before_ = std::exchange(after_, inbox_.take());
    }

    void push(std::int64_t version) {
        const PushId id{.worker = worker_, .sequence = static_cast<std::uint64_t>(version) + 1};
        const PushRoute route = PushRoute::to_servers(comm_, layout_);
        const PushForm form = route.whole();
        PushRoute::release(route.start(id, gradient_, form), form);
        comm_.send({0, Port::kCoordinator}, Port::kWorker, MessageKind::kPushReport,
                   PushReport{.ticket = {.id = id, .version = version, .samples = 1}});
    }

    /// The last two sets of parameters differ by the last update.
    [[nodiscard]] bool correct() const {
        const std::span<const float> before = layout_.all(before_->values);
        const std::span<const float> after = layout_.all(after_->values);
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
    CommContext comm_;
    int worker_;
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    ShardedLayout layout_;
    ParameterInbox inbox_;
    std::shared_ptr<Buffer> gradient_;
    std::optional<ReceivedParameters> before_;  ///< the set before the last
    std::optional<ReceivedParameters> after_;   ///< the last set
};

/// Rank 0's part: fires when all pushes are here.
class BenchCoordinator {
public:
    explicit BenchCoordinator(World& world)
        : world_(world), comm_{world.messenger(), world.operations(), world.map()} {}

    ExchangeReport run(std::int64_t updates) {
        send_servers(comm_, MessageKind::kBegin, BeginOrder{});
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
        send_servers(comm_, MessageKind::kStop, Empty{});
        for (int server = 0; server < world_.map().servers; ++server) {
            (void)receive(world_, Port::kCoordinator, "final reports", 0, server);
        }
        return report;
    }

private:
    /// A ticket and each server's note of every worker.
    void collect(std::int64_t version) {
        const int messages = world_.map().workers() * (1 + world_.map().servers);
        for (int i = 0; i < messages; ++i) {
            (void)receive(world_, Port::kCoordinator, "pushes", static_cast<std::uint64_t>(version),
                          -1);
        }
    }

    void fire(std::int64_t version) {
        FireOrder order;
        order.update = {.version = version, .fraction = 1, .learning_rate = kLearningRate};
        for (std::int32_t worker = 0; worker < world_.map().workers(); ++worker) {
            order.releases.push_back({.worker = worker});
            if (version > 0) {
                order.update.terms.push_back(
                    {.push = {.worker = worker, .sequence = static_cast<std::uint64_t>(version)},
                     .coefficient = 1});
            }
        }
        send_servers(comm_, MessageKind::kFire, order);
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
    CommContext comm_;
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
