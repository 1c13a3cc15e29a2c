#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/data/order.hpp"
#include "support/core/patience.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"
#include "support/train/local_network.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/shards.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/worker_loop.hpp"

namespace cohort::test {

constexpr std::int64_t kWorkerTrain = 96;
constexpr std::int64_t kWorkerTest = 50;
constexpr Clock::Seconds kQuiet{0.15};

/// A replica of its own, on one thread.
struct LoneReplica {
    explicit LoneReplica(const Graph& graph)
        : device(make_cpu_device(1)), replica(graph, *device, {.deterministic = true}) {}
    std::unique_ptr<Device> device;
    Replica replica;
};

/// Parameters and state as a graph begins with them.
struct Values {
    Values(const Graph& graph, std::uint64_t seed)
        : parameters(static_cast<std::size_t>(graph.parameters().total())),
          state(static_cast<std::size_t>(graph.state().total())) {
        graph.initialise(seed, parameters, state);
    }
    std::vector<float> parameters;
    std::vector<float> state;
};

/// A clock that goes on a step each time somebody looks at it.
class SteppingClock final : public Clock {
public:
    explicit SteppingClock(double step) : step_(step) {}
    [[nodiscard]] Seconds now() const override {
        return Seconds(step_ * static_cast<double>(++looks_));
    }
    [[nodiscard]] int looks() const { return looks_; }

private:
    double step_;
    mutable std::atomic<int> looks_{0};
};

/// Receives pushes at every server's port, and sends parameters when told.
class Servers {
public:
    Servers(LocalNetwork& network, const Graph& graph)
        : network_(network), shards_(cut_shards(graph, network.map().servers)) {
        for (const ShardRange& shard : shards_) {
            sinks_.push_back(std::make_unique<Sink>());
            network_.messenger(shard.part).set_sink(Port::kServer, sinks_.back().get());
        }
    }

    [[nodiscard]] const std::vector<ShardRange>& shards() const { return shards_; }

    void send(int server, int worker, const Values& values, ParametersHeader header) {
        const ShardRange& shard = shards_.at(static_cast<std::size_t>(server));
        auto data = std::make_shared<std::vector<float>>(values.parameters.begin() + shard.begin,
                                                         values.parameters.begin() + shard.end);
        if (shard.state > 0) {
            data->insert(data->end(), values.state.begin(), values.state.end());
        }
        header.server = server;
        header.begin = shard.begin;
        header.end = shard.end;
        network_.messenger(server)
            .start_transfer({network_.map().rank_of_worker(worker), Port::kWorker}, Port::kServer,
                            static_cast<std::uint16_t>(MessageKind::kParameters), encode(header),
                            std::as_bytes(std::span<const float>(*data)), ChunkOrder::kForward,
                            data)
            ->release(data->size() * sizeof(float));
    }
    void send_all(int worker, const Values& values, const ParametersHeader& header) {
        for (const ShardRange& shard : shards_) {
            send(shard.part, worker, values, header);
        }
    }

    /// The next push as server `server` holds it.
    [[nodiscard]] std::vector<float> pushed(int server, PushId& id) {
        const auto message = network_.messenger(server).mailbox(Port::kServer).receive(kPatience);
        if (!message) {
            throw std::runtime_error("no push came");
        }
        id = decode<PushHeader>(message->body).push;
        return sinks_.at(static_cast<std::size_t>(server))->pushes.at(id.sequence);
    }

private:
    struct Sink final : TransferSink {
        std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
            auto& push = pushes[decode<PushHeader>(announcement.body).push.sequence];
            push.resize(bytes / sizeof(float));
            return std::as_writable_bytes(std::span(push));
        }
        std::map<std::uint64_t, std::vector<float>> pushes;
    };

    LocalNetwork& network_;
    std::vector<ShardRange> shards_;
    std::vector<std::unique_ptr<Sink>> sinks_;
};

/// Workers on threads; the test plays the coordinator and, through Servers, the servers.
class WorkerRig {
public:
    WorkerRig(const std::string& model, int workers, int server_ranks, double stall_limit_s = 60)
        : job((write_data(folder_), options(folder_, model, server_ranks)), workers),
          network(server_ranks + workers, server_ranks, 4096, stall_limit_s) {
        if (server_ranks > 0) {
            servers.emplace(network, job.graph);
        }
    }
    WorkerRig(const WorkerRig&) = delete;
    WorkerRig& operator=(const WorkerRig&) = delete;
    virtual ~WorkerRig() { stop(); }

    /// Stops all workers; for tests whose own parts they use.
    void stop() {
        for (std::size_t worker = 0; worker < threads_.size(); ++worker) {
            if (threads_[worker].thread.joinable()) {
                order(static_cast<int>(worker), MessageKind::kStop, Empty{});
            }
        }
        for (auto& running : threads_) {
            if (running.thread.joinable()) {
                running.thread.join();
            }
        }
    }

    /// Starts the next worker.
    void start(const AllReduceFactory& rounds = {}) {
        const int worker = static_cast<int>(threads_.size());
        const int rank = network.map().rank_of_worker(worker);
        const CommContext comm{network.messenger(rank), network.operations(rank), network.map()};
        threads_.emplace_back();
        auto* mine = &threads_.back();
        mine->loop = std::make_unique<WorkerLoop>(comm, job, environment, worker, rounds);
        mine->thread = std::thread([mine] {
            try {
                mine->loop->run();
            } catch (...) {
                mine->error = std::current_exception();
            }
            mine->ended = true;
        });
    }

    template <class Body>
    void order(int worker, MessageKind kind, const Body& body) {
        network.messenger(0).send({network.map().rank_of_worker(worker), Port::kWorker},
                                  Port::kCoordinator, static_cast<std::uint16_t>(kind),
                                  encode(body));
    }
    void lease(int worker, std::uint64_t id, std::int64_t position, std::int64_t count) {
        order(worker, MessageKind::kLease,
              LeaseOrder{.lease = id, .epoch = 0, .position = position, .count = count});
    }

    /// The next message to the coordinator, which must be of this kind.
    template <class Body>
    Body told(MessageKind kind) {
        const auto message = network.messenger(0).mailbox(Port::kCoordinator).receive(kPatience);
        if (!message || message->kind != static_cast<std::uint16_t>(kind)) {
            throw std::runtime_error("the coordinator waits for message " +
                                     std::to_string(static_cast<int>(kind)) + ", got " +
                                     std::to_string(message ? message->kind : 0));
        }
        return decode<Body>(message->body);
    }
    /// True when nothing comes for a moment.
    [[nodiscard]] bool quiet(int rank = 0, Port port = Port::kCoordinator) {
        return !network.messenger(rank).mailbox(port).receive(kQuiet);
    }

    [[nodiscard]] bool begun(std::size_t worker) { return threads_.at(worker).loop->begun(); }
    /// Returns when the worker is in the wait `name`.
    void until_waiting(int worker, const std::string& name) {
        const OperationBoard& board = network.operations(network.map().rank_of_worker(worker));
        for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
            const auto lines = board.last_operations();
            if (!lines.empty() && lines.back().find(name) == 0 &&
                lines.back().find("waiting") != std::string::npos) {
                return;
            }
        }
    }
    /// The stalls of a worker after a wait that is many of the rig's limits long.
    [[nodiscard]] std::vector<Stall> stalls(int worker) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return network.operations(network.map().rank_of_worker(worker)).check();
    }

    /// The error that has ended a worker; null while it works.
    [[nodiscard]] std::exception_ptr ended_with(std::size_t worker) {
        return threads_.at(worker).ended ? threads_.at(worker).error : nullptr;
    }
    /// The error that ended a worker; waits for its end.
    [[nodiscard]] std::exception_ptr error(std::size_t worker) {
        const SteadyClock clock;
        const Clock::Seconds limit = clock.now() + kPatience;
        while (!threads_.at(worker).ended && clock.now() < limit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return threads_.at(worker).error;
    }

    /// What a worker makes of positions [position, position + count) of an epoch.
    [[nodiscard]] LoadedBatch batch(std::int64_t position, std::int64_t count,
                                    std::uint32_t epoch = 0) {
        LoaderOptions loading;
        loading.augment = job.augment;
        loading.order = job.order;
        Loader loader(job.train_set, loading);
        SliceReader slices(job.train_set->info(), job.order);
        loader.submit({.id = 1,
                       .epoch = epoch,
                       .position = position,
                       .samples = slices.samples({epoch, position, count})});
        return std::move(*loader.next());
    }

private:
    static void write_data(const TempFolder& folder) {
        Hdf5Thread hdf5;
        write_tiny_dataset(folder.file("data.h5"), kWorkerTrain, kWorkerTest, hdf5);
    }
    static TrainOptions options(const TempFolder& folder, const std::string& model, int servers) {
        TrainOptions o;
        o.data = folder.file("data.h5");
        o.model = model;
        o.arch = servers > 0 ? Architecture::kServers : Architecture::kRing;
        o.servers = servers;
        o.batch = 16;
        o.lr = 0.05;
        o.threads = 1;
        o.device = "cpu";
        o.deterministic = true;
        o.augment = "pad-crop:1,flip";
        o.out = folder.file("out");
        return o;
    }

    TempFolder folder_;

public:
    JobContext job;
    TrainEnvironment environment;
    LocalNetwork network;
    std::optional<Servers> servers;  ///< when there are some

private:
    struct Running {
        std::unique_ptr<WorkerLoop> loop;
        std::thread thread;
        std::exception_ptr error;
        std::atomic<bool> ended{false};
    };
    std::deque<Running> threads_;
};

}  // namespace cohort::test
