#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"
#include "support/train/local_network.hpp"
#include "support/train/test_run.hpp"
#include "train/coordinator/update_driver.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/servers/start_permit.hpp"
#include "train/worker/servers/worker_parameters.hpp"

namespace cohort::test {

class FlowRig;
/// What workers were told of their pushes is what became of them, and they were told of most.
void expect_true_outcomes(const FlowRig& rig);

/// The coordinator's flow among servers and workers that are models of the real ones; whatever can
/// be on its way is, until somebody is told to take a step. Ways between two parts keep the order.
class FlowRig {
public:
    FlowRig(int server_ranks, int worker_ranks, std::int64_t samples, const SyncPlan& plan,
            std::int64_t batch = 16, bool measure_gradients = false,
            const std::string& push_tree = "off")
        : job((write_data(folder_), options(folder_, server_ranks, batch, push_tree)),
              worker_ranks),
          network(server_ranks + worker_ranks, server_ranks),
          run(job, worker_ranks, samples, plan, Architecture::kServers, measure_gradients),
          flow(make_servers_driver(
              CommContext{network.messenger(0), network.operations(0), network.map()}, job, run)) {
        for (int server = 0; server < server_ranks; ++server) {
            servers.emplace_back();
            servers.back().down.resize(static_cast<std::size_t>(worker_ranks));
            servers.back().passed_on.resize(static_cast<std::size_t>(worker_ranks));
        }
        for (int worker = 0; worker < worker_ranks; ++worker) {
            workers.emplace_back();
            workers.back().inbox = std::make_unique<Inbox>(job.graph, server_ranks);
            workers.back().up.resize(servers.size());
        }
    }

    struct Payload {
        PushId push;
        std::uint32_t layout = 0;  ///< that it is cut by
    };
    /// What a server keeps.
    struct Server {
        std::int64_t version = 0;
        std::set<PushId> staged;
        std::set<PushId> discarded;  ///< before it came
        std::optional<PushId> reference;
        std::uint32_t layout = 0;
        std::vector<FireOrder> fires;
        std::vector<std::deque<ParametersHeader>> down;  ///< on its way, by worker
        /// The same over other workers: with their ranks.
        std::vector<std::deque<std::pair<ParametersHeader, std::vector<int>>>> passed_on;
        std::size_t stops = 0;  ///< of all updates
    };
    struct Computing {
        LeaseOrder order;
        PushId id;
        std::int64_t version = 0;
        std::uint32_t layout = 0;
        bool leaving = false;  ///< its payload has begun to leave
        std::uint64_t turn = 0;
        int losses = 0;  ///< of its group until it began
    };
    struct Inbox {
        Inbox(const Graph& graph, int server_ranks) : layout(cut_shards(graph, server_ranks)) {}
        void receive(ParametersHeader header);

        ShardedLayout layout;
        std::unique_ptr<Device> device = make_cpu_device(1);
        ParameterInbox parameters{layout, *device};
    };
    using GroupKey = std::pair<std::uint64_t, std::vector<std::int32_t>>;
    /// What a worker knows; see ServersExecutor.
    struct Worker {
        StartPermit leave;
        std::deque<LeaseOrder> leases;
        std::set<std::uint64_t> revoked;
        std::uint64_t revoked_up_to = 0;
        std::uint32_t incarnation = 0;
        std::uint32_t layout = 0;  ///< of the mini-batches to come
        std::uint64_t sequence = 0;
        std::optional<Computing> computing;
        std::unique_ptr<Inbox> inbox;
        std::vector<std::deque<Payload>> up;      ///< on its way, by server
        std::map<GroupKey, std::uint64_t> turns;  ///< begun, by group
        bool frozen = false;
        bool excluded = false;
        int losses = 0;
    };

    /// A step of one part; false when it has nothing to do.
    bool coordinator() {
        const auto message =
            network.messenger(0).mailbox(Port::kCoordinator).receive(Clock::Seconds(0));
        if (message && !flow->handle(*message)) {
            throw std::logic_error("a message that the flow does not know");
        }
        return message.has_value();
    }
    bool serve(int server);
    /// @param passed_on  by other workers
    bool deliver_down(int server, int worker, bool passed_on = false);
    bool deliver_up(int worker, int server);
    bool order(int worker);
    /// @param finite  what its ticket says @param give_up_late  finds out after its payload began
    bool work(int worker, bool finite = true);

    /// The worker stops, nothing else is sent to it or taken from it.
    /// @param late  what it was to pass on may still come
    void lose(int worker, bool late = false) {
        Worker& w = workers.at(static_cast<std::size_t>(worker));
        w.frozen = true;
        w.excluded = true;
        ++w.losses;
        const int rank = network.map().rank_of_worker(worker);
        for (Server& server : servers) {
            for (auto& way : server.passed_on) {
                std::erase_if(way, [&](const auto& one) {
                    return !late && std::ranges::count(one.second, rank) > 0;
                });
            }
        }
        flow->lost(worker);
    }
    void come_back(int worker) {
        Worker& w = workers.at(static_cast<std::size_t>(worker));
        w.frozen = false;
        w.excluded = false;
        flow->joined(worker);
    }

    /// A step of any part, drawn by `random`; false when nobody can do anything.
    template <class Random>
    bool any_step(Random& random, double non_finite = 0);
    /// Everybody does what there is to do, until `over` or nobody can do anything.
    void run_until(const std::function<bool()>& over) {
        while (!over() && sweep()) {
        }
    }
    bool sweep();
    /// Where everybody stands, for messages of tests.
    [[nodiscard]] std::string describe();
    /// The end as the coordinator brings it about.
    void finish() {
        for (int i = 0; !flow->quiet(); ++i) {
            if (!sweep() || i > 1000) {
                throw std::logic_error("the flow does not come to rest");
            }
        }
        run.leases().return_all();
        flow->request({});
        while (sweep()) {
        }
        expect_true_outcomes(*this);
    }

private:
    static void write_data(const TempFolder& folder) {
        Hdf5Thread hdf5;
        write_tiny_dataset(folder.file("data.h5"), 200, 10, hdf5);
    }
    static TrainOptions options(const TempFolder& folder, int servers, std::int64_t batch,
                                const std::string& push_tree) {
        TrainOptions o;
        o.push_tree = push_tree;
        o.wire = Wire::kBf16;  // outcomes of pushes are told
        o.data = folder.file("data.h5");
        o.model = "smallcnn";
        o.arch = Architecture::kServers;
        o.servers = servers;
        o.batch = batch;
        o.lr = 0.05;
        o.epochs = 1;
        o.out = folder.file("out");
        return o;
    }
    [[nodiscard]] bool revoked(const Worker& w, std::uint64_t lease) const {
        return lease <= w.revoked_up_to || w.revoked.contains(lease);
    }
    void fire(int index, const FireOrder& order);
    void tell(int rank, Port port, MessageKind kind, std::vector<std::byte> body) {
        network.messenger(rank).send({0, Port::kCoordinator}, port,
                                     static_cast<std::uint16_t>(kind), std::move(body));
    }
    void push(int worker, bool given_up, bool finite);
    [[nodiscard]] bool group_ready(const Computing& computing);
    void begin(Worker& w, int worker);
    [[nodiscard]] int group_losses(const WorkOrder& work) const;
    bool take_parameters(Worker& w);

    TempFolder folder_;

public:
    JobContext job;
    LocalNetwork network;
    TestRun run;
    std::unique_ptr<UpdateDriver> flow;
    std::vector<Server> servers;
    std::vector<Worker> workers;
};

template <class Random>
bool FlowRig::any_step(Random& random, double non_finite) {
    const auto servers_count = static_cast<int>(servers.size());
    const auto workers_count = static_cast<int>(workers.size());
    for (int tries = 0; tries < 64; ++tries) {
        const auto server = static_cast<int>(random() % static_cast<unsigned>(servers_count));
        const auto worker = static_cast<int>(random() % static_cast<unsigned>(workers_count));
        const bool finite = static_cast<double>(random() % 1000) >= 1000 * non_finite;
        bool done = false;
        switch (random() % 8) {
            case 0: done = coordinator(); break;
            case 1: done = serve(server); break;
            case 2: done = deliver_down(server, worker, tries % 2 == 1); break;
            case 3: done = deliver_up(worker, server); break;
            case 4:
            case 5: done = order(worker); break;
            default: done = work(worker, finite); break;
        }
        if (done) {
            return true;
        }
    }
    return sweep();
}

}  // namespace cohort::test
