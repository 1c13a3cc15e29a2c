#include "sim/scenario/oracle_predictor.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cohort/sched/policy.hpp"
#include "sched/telemetry/newest_quantile.hpp"

namespace cohort {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// What a scenario leaves each target, from when on; read as far as it is asked for.
class Timeline {
public:
    explicit Timeline(std::unique_ptr<Scenario> scenario) : scenario_(std::move(scenario)) {
        if (scenario_ != nullptr) {
            row_ = scenario_->next_row();
        }
    }

    struct Span {
        Shares shares;
        double until_s = kForever;
    };
    [[nodiscard]] Span at(const TraceTarget& target, double time_s) {
        while (row_ && row_->time_s <= time_s + ahead_s_) {
            rows_[row_->target].emplace_back(row_->time_s, row_->shares);
            row_ = scenario_->next_row();
        }
        const auto known = rows_.find(target);
        if (known == rows_.end()) {
            return {};
        }
        const Rows& rows = known->second;
        const auto next = std::upper_bound(
            rows.begin(), rows.end(), time_s,
            [](double time, const std::pair<double, Shares>& row) { return time < row.first; });
        Span span{.shares = next == rows.begin() ? Shares{} : std::prev(next)->second};
        if (next != rows.end()) {
            span.until_s = next->first;
        }
        return span;
    }
    /// How far ahead of the time of a question changes are to be known.
    void look_ahead(double seconds) { ahead_s_ = std::max(ahead_s_, seconds); }

private:
    using Rows = std::vector<std::pair<double, Shares>>;
    std::unique_ptr<Scenario> scenario_;
    std::optional<TraceRow> row_;  ///< the next one
    std::map<TraceTarget, Rows> rows_;
    double ahead_s_ = 0;
};

class OraclePredictor final : public Predictor {
public:
    OraclePredictor(std::unique_ptr<Scenario> scenario, const ClusterShape& shape,
                    const ClusterProfile& profile, const Workload& workload, std::int64_t batch)
        : timeline_(std::move(scenario)),
          nodes_(shape.worker_nodes),
          server_nodes_(shape.server_nodes),
          card_s_(profile.latency_s + workload.parameter_bytes / profile.nic_bytes_per_s),
          workload_(workload),
          batch_(batch),
          workers_(nodes_.size()) {}

    std::string_view name() const override { return kOraclePredictor; }

    void add(const IterationRecord& record) override {
        const double own_s = record.own_s(batch_);
        if (!(own_s > 0)) {
            return;
        }
        Worker& worker = workers_.at(static_cast<std::size_t>(record.worker));
        worker.at_s = record.arrived_s;
        worker.transfers.add(static_cast<float>(record.transfer_s()));
        worker.wait.add(record.wait_s);
        worker.known = true;
        timeline_.look_ahead(4 * kMaxHorizon * (own_s + record.wait_s));
    }
    void forget(int worker) override { workers_.at(static_cast<std::size_t>(worker)) = {}; }

    Forecast predict() const override {
        Forecast forecast;
        forecast.own_s.resize(workers_.size());
        for (std::size_t at = 0; at < workers_.size(); ++at) {
            const Worker& worker = workers_[at];
            double begin_s = worker.at_s;
            for (int ahead = 0; worker.known && ahead < kMaxHorizon; ++ahead) {
                const double own_s = iteration_s(static_cast<int>(at), begin_s);
                forecast.own_s[at].push_back(static_cast<float>(own_s));
                begin_s += own_s + worker.wait.seconds();
            }
        }
        return forecast;
    }

private:
    struct Worker {
        bool known = false;
        double at_s = 0;  ///< its newest record arrived
        NewestQuantile transfers;
        OwnTime wait;
    };

    /// Begun then: goes on at the pace of each moment until it is done.
    [[nodiscard]] double iteration_s(int worker, double begin_s) const {
        double left = 1;
        double now_s = begin_s;
        for (;;) {
            const Timeline::Span at = shares(worker, now_s);
            const double whole_s = cost_s(worker, at.shares);
            if (now_s + left * whole_s <= at.until_s) {
                return now_s + left * whole_s - begin_s;
            }
            left -= (at.until_s - now_s) / whole_s;
            now_s = at.until_s;
        }
    }

    [[nodiscard]] Timeline::Span shares(int worker, double time_s) const {
        const Timeline::Span own =
            timeline_.at({.kind = TraceTarget::Kind::kWorker, .index = worker}, time_s);
        Timeline::Span both = timeline_.at(
            {.kind = TraceTarget::Kind::kNode, .index = nodes_[static_cast<std::size_t>(worker)]},
            time_s);
        both.shares.cpu *= own.shares.cpu;
        both.shares.device *= own.shares.device;
        both.shares.delay_s += own.shares.delay_s;
        both.until_s = std::min(both.until_s, own.until_s);
        return both;
    }

    /// Share of a transfer that leaves the node.
    [[nodiscard]] double remote(int node) const {
        const auto local = std::count(server_nodes_.begin(), server_nodes_.end(), node);
        const auto all = static_cast<double>(std::max<std::size_t>(server_nodes_.size(), 1));
        return 1 - static_cast<double>(local) / all;
    }

    /// All of an iteration at these shares. Transfers are what the worker's own card takes alone,
    /// as in records: the rest is waiting. In a ring they are everybody's, and stay as they were.
    [[nodiscard]] double cost_s(int worker, const Shares& at) const {
        constexpr double kUsual = 0.2;  ///< quantile of a ring's transfers
        const auto samples = static_cast<double>(batch_);
        const double input_s = (workload_.cpu_s + samples * workload_.cpu_s_per_sample) /
                               (workload_.cpu_threads * at.cpu);
        const double device_s =
            (workload_.device_s + samples * workload_.device_s_per_sample) / at.device;
        const double card_s = card_s_ * remote(nodes_[static_cast<std::size_t>(worker)]);
        const double push_s = std::max(0.0, card_s / at.tx - workload_.backward_share * device_s);
        const Worker& of = workers_[static_cast<std::size_t>(worker)];
        const double transfers_s = server_nodes_.empty()
                                       ? static_cast<double>(of.transfers.at(kUsual))
                                       : push_s + card_s / at.rx;
        return at.delay_s + input_s + device_s + transfers_s;
    }

    mutable Timeline timeline_;  ///< read further by questions
    std::vector<int> nodes_;     ///< [workers]
    std::vector<int> server_nodes_;
    double card_s_;  ///< of a push or pull that all leaves the node
    Workload workload_;
    std::int64_t batch_;
    std::vector<Worker> workers_;
};

}  // namespace

std::unique_ptr<Predictor> make_oracle_predictor(std::unique_ptr<Scenario> scenario,
                                                 const ClusterShape& shape,
                                                 const ClusterProfile& profile,
                                                 const Workload& workload, std::int64_t batch) {
    return std::make_unique<OraclePredictor>(std::move(scenario), shape, profile, workload, batch);
}

}  // namespace cohort
