#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "sched/fleet/making_room.hpp"
#include "sim/cluster/fluid.hpp"

namespace cohort::test {

/// A synchronous job on the fluid network: every worker computes and pushes, then servers work,
/// then all pull.
struct FluidJob {
    std::vector<int> workers;  ///< nodes
    std::vector<int> servers;  ///< nodes
    double compute_s = 1;
    double bytes = 0;          ///< of a worker's push, and pull
    double server_core_s = 0;  ///< of all servers, in an iteration
    double server_threads = 1;
    double weight = 1;
};

/// Runs jobs side by side on one network, without any approximation: every transfer is an activity.
class FluidJobs {
public:
    FluidJobs(const std::vector<NodeCapacity>& nodes, std::vector<FluidJob> jobs,
              std::uint64_t seed = 1)
        : jobs_(std::move(jobs)), random_(seed) {
        for (const NodeCapacity& node : nodes) {
            cores_.push_back(fluid_.add_resource(node.cores));
            rx_.push_back(fluid_.add_resource(node.rx_bytes_s));
            tx_.push_back(fluid_.add_resource(node.tx_bytes_s));
        }
        states_.resize(jobs_.size());
    }

    /// @return iterations per second by job, over so many seconds
    std::vector<double> run(double seconds) {
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            queue_.after(uniform() * jobs_[job].compute_s, [this, job] { begin(job, kCompute); });
        }
        bool over = false;
        queue_.at(seconds, [&over] { over = true; });
        while (!over && queue_.step()) {
        }
        std::vector<double> rates;
        for (const State& state : states_) {
            rates.push_back(state.iterations / seconds);
        }
        return rates;
    }

private:
    struct State {
        double iterations = 0;
        int running = 0;  ///< activities of the phase
    };

    double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

    enum Phase { kCompute, kServe, kPull, kPhases };

    void begin(std::size_t index, int phase) {
        const FluidJob& job = jobs_[index];
        State& state = states_[index];
        state.running = 1;  // until all have begun
        if (phase == kServe) {
            serve(index);
        }
        for (std::size_t worker = 0; worker < job.workers.size(); ++worker) {
            if (phase == kCompute) {
                ++state.running;
                const double jitter = 0.95 + 0.1 * uniform();
                queue_.after(job.compute_s * jitter, [this, index, worker] {
                    transfer(index, worker, true);
                    ended(index, kCompute);
                });
            } else if (phase == kPull) {
                transfer(index, worker, false);
            }
        }
        ended(index, phase);
    }

    void ended(std::size_t index, int phase) {
        if (--states_[index].running == 0) {
            states_[index].iterations += phase == kPull ? 1 : 0;
            begin(index, (phase + 1) % kPhases);
        }
    }

    void start(std::size_t index, int phase, double work,
               const std::vector<FluidNetwork::Use>& uses, double limit, double weight) {
        ++states_[index].running;
        fluid_.begin(
            work, uses, limit, [this, index, phase] { ended(index, phase); }, weight);
    }

    void transfer(std::size_t index, std::size_t which, bool push) {
        const FluidJob& job = jobs_[index];
        const int worker = job.workers[which];
        const double weight = job.weight;
        const double part = 1.0 / static_cast<double>(job.servers.size());
        std::vector<double> far(rx_.size(), 0);
        double near = 0;
        for (const int server : job.servers) {
            if (server != worker) {
                far[static_cast<std::size_t>(server)] += part;
                near += part;
            }
        }
        std::vector<FluidNetwork::Use> uses;
        for (std::size_t node = 0; node < far.size(); ++node) {
            if (far[node] > 0) {
                uses.push_back({push ? rx_[node] : tx_[node], far[node]});
            }
        }
        if (near > 0) {
            const auto node = static_cast<std::size_t>(worker);
            uses.push_back({push ? tx_[node] : rx_[node], near});
            start(index, push ? kCompute : kPull, job.bytes, uses, FluidNetwork::kUnlimited,
                  push ? weight : job.weight);
        }
    }

    void serve(std::size_t index) {
        const FluidJob& job = jobs_[index];
        if (job.server_core_s > 0) {
            for (const int server : job.servers) {
                start(index, kServe, job.server_core_s / static_cast<double>(job.servers.size()),
                      {{cores_[static_cast<std::size_t>(server)], 1}}, job.server_threads,
                      job.weight);
            }
        }
    }

    EventQueue queue_;
    FluidNetwork fluid_{queue_};
    std::vector<FluidJob> jobs_;
    std::vector<State> states_;
    std::vector<FluidNetwork::ResourceId> cores_;
    std::vector<FluidNetwork::ResourceId> rx_;
    std::vector<FluidNetwork::ResourceId> tx_;
    std::mt19937_64 random_;
};

}  // namespace cohort::test
