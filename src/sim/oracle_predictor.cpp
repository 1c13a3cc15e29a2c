#include "cohort/sim/oracle_predictor.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cohort/sched/newest_quantile.hpp"
#include "cohort/sched/policy.hpp"

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
        return {.shares = next == rows.begin() ? Shares{} : std::prev(next)->second,
                .until_s = next == rows.end() ? kForever : next->first};
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
          nic_bytes_s_(profile.nic_bytes_per_s),
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
        worker.pull.add(static_cast<float>(record.pull_s));
        worker.push.add(static_cast<float>(record.push_s));
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
        double at_s = 0;      ///< its newest record arrived
        NewestQuantile pull;  ///< what others leave of the servers' cards shows here
        NewestQuantile push;  ///< what is not hidden behind backward
        OwnTime wait;
    };

    /// Begun then: goes on at the pace of each moment until it is done.
    [[nodiscard]] double iteration_s(int worker, double begin_s) const {
        double left = 1;
        double now_s = begin_s;
        for (;;) {
            const Moment at = moment(worker, now_s);
            const double whole_s = cost_s(worker, at);
            if (now_s + left * whole_s <= at.until_s) {
                return now_s + left * whole_s - begin_s;
            }
            left -= (at.until_s - now_s) / whole_s;
            now_s = at.until_s;
        }
    }

    /// What a worker has, and what servers' cards have left at worst.
    struct Moment {
        Shares own;
        double servers_rx = 1;
        double servers_tx = 1;
        double until_s = kForever;
    };
    [[nodiscard]] Moment moment(int worker, double time_s) const {
        const Timeline::Span own =
            timeline_.at({.kind = TraceTarget::Kind::kWorker, .index = worker}, time_s);
        const Timeline::Span node = at_node(nodes_[static_cast<std::size_t>(worker)], time_s);
        Moment moment{.own = node.shares, .until_s = std::min(own.until_s, node.until_s)};
        moment.own.cpu *= own.shares.cpu;
        moment.own.device *= own.shares.device;
        moment.own.delay_s += own.shares.delay_s;
        for (const int server : server_nodes_) {
            const Timeline::Span span = at_node(server, time_s);
            moment.servers_rx = std::min(moment.servers_rx, span.shares.rx);
            moment.servers_tx = std::min(moment.servers_tx, span.shares.tx);
            moment.until_s = std::min(moment.until_s, span.until_s);
        }
        return moment;
    }
    [[nodiscard]] Timeline::Span at_node(int node, double time_s) const {
        return timeline_.at({.kind = TraceTarget::Kind::kNode, .index = node}, time_s);
    }

    /// All of an iteration as things are at that moment. Transfers that nothing slowed show what
    /// others leave of the servers' cards; the slowest card sets their pace, as all parts of a
    /// transfer keep pace.
    [[nodiscard]] double cost_s(int worker, const Moment& at) const {
        constexpr double kFree = 0.2;  ///< quantile of transfers that were not slowed
        const Worker& of = workers_[static_cast<std::size_t>(worker)];
        const auto samples = static_cast<double>(batch_);
        const double input_s = (workload_.cpu_s + samples * workload_.cpu_s_per_sample) /
                               (workload_.cpu_threads * at.own.cpu);
        const double healthy_s = workload_.device_s + samples * workload_.device_s_per_sample;
        const double device_s = healthy_s / at.own.device;
        double transfers_s = static_cast<double>(of.pull.at(kFree) + of.push.at(kFree));
        if (!server_nodes_.empty()) {
            const double card_s = workload_.parameter_bytes / nic_bytes_s_;
            const double exposed_s = static_cast<double>(of.push.at(kFree));
            const double push_s =
                exposed_s > 0 ? exposed_s + workload_.backward_share * healthy_s : card_s;
            const double pull_s = static_cast<double>(of.pull.at(kFree));
            transfers_s = std::max(pull_s / at.servers_tx, card_s / at.own.rx) +
                          std::max(0.0, std::max(push_s / at.servers_rx, card_s / at.own.tx) -
                                            workload_.backward_share * device_s);
        }
        return at.own.delay_s + input_s + device_s + transfers_s;
    }

    mutable Timeline timeline_;  ///< read further by questions
    std::vector<int> nodes_;     ///< [workers]
    std::vector<int> server_nodes_;
    double nic_bytes_s_;
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
