// Events per second of the virtual cluster's parts: the bare queue, and a cluster whose workers go
// round without an engine: pull, compute, push, the servers' work. Target: 200,000 events/s with an
// engine and policies on top, at 64 workers.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/cluster/cluster.hpp"

namespace cohort {
namespace {

/// As many events wait as range(0) says; each asks for another one.
void queue_hold(benchmark::State& state) {
    EventQueue queue;
    std::uint64_t random = 1;
    const auto later = [&] {
        random = random * 6364136223846793005U + 1442695040888963407U;
        return static_cast<double>(random >> 40);
    };
    std::function<void()> again = [&] { queue.after(later(), [&again] { again(); }); };
    for (std::int64_t i = 0; i < state.range(0); ++i) {
        again();
    }
    for (auto _ : state) {
        queue.step();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(queue_hold)->Arg(64)->Arg(512)->Arg(4096)->Arg(65536);

/// Workers that go round by themselves, as under asgd: range(0) workers on range(1) nodes with
/// range(2) servers spread over them. The batch decides whether servers' cards are full.
class GoingRound {
public:
    GoingRound(int workers, int nodes, int servers, double device_s) : device_s_(device_s) {
        ClusterProfile profile;
        profile.nic_bytes_per_s = 1.25e9;
        profile.latency_s = 50e-6;
        profile.local_bytes_per_s = 10e9;
        profile.cores = 32;
        cluster_ = std::make_unique<VirtualCluster>(queue, profile, nodes, nullptr);
        for (int i = 0; i < workers; ++i) {
            cluster_->add_place(static_cast<int>(std::int64_t{i} * nodes / workers));
        }
        for (int i = 0; i < servers; ++i) {
            servers_.push_back(static_cast<int>(std::int64_t{i} * nodes / servers));
        }
        nodes_.reserve(static_cast<std::size_t>(workers));
        for (int i = 0; i < workers; ++i) {
            nodes_.push_back(static_cast<int>(std::int64_t{i} * nodes / workers));
        }
        served_.resize(static_cast<std::size_t>(workers));
        cluster_->start();
        for (int i = 0; i < workers; ++i) {
            // Not all at once.
            queue.after(device_s * i / workers, [this, i] { pull(i); });
        }
    }

    EventQueue queue;

private:
    static constexpr double kBytes = 4e6;

    [[nodiscard]] int node(int worker) const { return nodes_[static_cast<std::size_t>(worker)]; }
    void pull(int worker) {
        cluster_->gather(servers_, node(worker), kBytes, [this, worker] { compute(worker); });
    }
    void compute(int worker) {
        // Healthy workers differ a little.
        const double own = 1 + 0.01 * ((worker * 7919) % 101) / 101;
        cluster_->compute(worker,
                          {.cpu_core_s = 0.02, .cpu_threads = 4, .device_s = device_s_ * own},
                          nullptr, [this, worker] { push(worker); });
    }
    void push(int worker) {
        cluster_->scatter(node(worker), servers_, kBytes, [this, worker] { serve(worker); });
    }
    void serve(int worker) {
        served_[static_cast<std::size_t>(worker)] = servers_.size();
        const double core_s = 20e-6 / static_cast<double>(servers_.size());
        for (const int server : servers_) {
            cluster_->serve(server, core_s, 4, [this, worker] {
                if (--served_[static_cast<std::size_t>(worker)] == 0) {
                    pull(worker);
                }
            });
        }
    }

    double device_s_;
    std::unique_ptr<VirtualCluster> cluster_;
    std::vector<int> servers_;
    std::vector<int> nodes_;
    std::vector<std::size_t> served_;  ///< servers that are not done, by worker
};

void run_cluster(benchmark::State& state, double device_s) {
    GoingRound round(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                     static_cast<int>(state.range(2)), device_s);
    for (std::int64_t i = 0; i < 20 * state.range(0); ++i) {
        round.queue.step();  // until the first are back
    }
    for (auto _ : state) {
        round.queue.step();
    }
    state.SetItemsProcessed(state.iterations());
}

/// Nothing is full.
void cluster_free(benchmark::State& state) {
    // Each worker takes 8 MB of servers' cards per iteration, which have 1.25 GB/s each way.
    const auto load =
        static_cast<double>(state.range(0)) * 4e6 / 1.25e9 / static_cast<double>(state.range(2));
    run_cluster(state, 4 * load);
}
/// The servers' cards hold everybody back.
void cluster_full(benchmark::State& state) {
    run_cluster(state, 1e-3);
}

BENCHMARK(cluster_free)
    ->Args({64, 64, 1})
    ->Args({512, 512, 1})
    ->Args({4096, 4096, 1})
    ->Args({64, 8, 4})
    ->Args({4096, 512, 32});
BENCHMARK(cluster_full)
    ->Args({64, 64, 1})
    ->Args({512, 512, 1})
    ->Args({4096, 4096, 1})
    ->Args({64, 8, 4})
    ->Args({4096, 512, 32});

}  // namespace
}  // namespace cohort
