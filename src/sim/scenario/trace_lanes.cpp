#include "sim/scenario/trace_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Adds up speed over time, by columns.
class Course {
public:
    Course(double end_s, int columns)
        : column_s_(end_s / columns), sums_(static_cast<std::size_t>(columns)) {}

    /// From `time_s` on, not before the last call's.
    void set(double time_s, double speed) {
        add(time_s);
        speed_ = speed;
    }
    /// Mean speed of each column. To be called once, at the end.
    [[nodiscard]] std::vector<double> means() {
        add(column_s_ * static_cast<double>(sums_.size()));
        for (double& sum : sums_) {
            sum /= column_s_;
        }
        return std::move(sums_);
    }

private:
    void add(double until_s) {
        for (; since_s_ < until_s && at_ < sums_.size();) {
            const double border = column_s_ * static_cast<double>(at_ + 1);
            const double end = std::min(until_s, border);
            sums_[at_] += (end - since_s_) * speed_;
            since_s_ = end;
            at_ += end >= border ? 1 : 0;
        }
    }

    double column_s_;
    std::vector<double> sums_;
    std::size_t at_ = 0;
    double since_s_ = 0;
    double speed_ = 1;
};

double speed_of(const Shares& own, const Shares& node, double iteration_s) {
    const double scarcest =
        std::min({own.cpu * node.cpu, own.device * node.device, node.rx, node.tx});
    return 1 / (1 / scarcest + (own.delay_s + node.delay_s) / iteration_s);
}

/// Courses of all workers and of the nodes that have servers.
class Courses {
public:
    Courses(const ClusterShape& shape, double end_s, int columns)
        : shape_(shape),
          workers_(static_cast<std::size_t>(shape.workers), Course(end_s, columns)),
          own_(static_cast<std::size_t>(shape.workers)),
          nodes_(static_cast<std::size_t>(shape.nodes)) {
        for (std::size_t i = 0; i < shape.worker_nodes.size(); ++i) {
            on_node_.emplace(shape.worker_nodes[i], i);
        }
        for (const int node : shape.server_nodes) {
            servers_.emplace(node, Course(end_s, columns));
        }
    }

    void take(const TraceRow& row) {
        const auto index = static_cast<std::size_t>(row.target.index);
        if (row.target.kind == TraceTarget::Kind::kWorker) {
            own_[index] = row.shares;
            put(index, row.time_s);
            return;
        }
        nodes_[index] = row.shares;
        const auto [first, last] = on_node_.equal_range(row.target.index);
        for (auto at = first; at != last; ++at) {
            put(at->second, row.time_s);
        }
        if (const auto server = servers_.find(row.target.index); server != servers_.end()) {
            server->second.set(row.time_s,
                               std::min({row.shares.cpu, row.shares.rx, row.shares.tx}));
        }
    }

    [[nodiscard]] std::vector<double> of_worker(std::size_t index) {
        return workers_[index].means();
    }
    [[nodiscard]] std::vector<double> of_server(int node) {
        return Course(servers_.at(node)).means();
    }

private:
    void put(std::size_t worker, double time_s) {
        const auto node = static_cast<std::size_t>(shape_.worker_nodes[worker]);
        workers_[worker].set(time_s, speed_of(own_[worker], nodes_[node], shape_.iteration_s));
    }

    const ClusterShape& shape_;
    std::vector<Course> workers_;
    std::vector<Shares> own_;
    std::vector<Shares> nodes_;
    std::multimap<int, std::size_t> on_node_;
    std::map<int, Course> servers_;
};

/// The mean of workers [first, last).
TraceLane workers_lane(Courses& courses, int first, int last) {
    TraceLane lane{.name = last - first == 1 ? fmt::format("worker {}", first)
                                             : fmt::format("workers {}-{}", first, last - 1),
                   .speed = {}};
    for (int worker = first; worker < last; ++worker) {
        const std::vector<double> speed = courses.of_worker(static_cast<std::size_t>(worker));
        lane.speed.resize(speed.size());
        for (std::size_t i = 0; i < speed.size(); ++i) {
            lane.speed[i] += speed[i] / (last - first);
        }
    }
    return lane;
}

}  // namespace

std::vector<TraceLane> trace_lanes(const std::vector<TraceRow>& rows, const ClusterShape& shape,
                                   double end_s, int columns, int most) {
    check_invariant(end_s > 0 && columns > 0 && most > 0 && shape.iteration_s > 0,
                    "a picture has a size and its iterations a length");
    check_targets(rows, shape.workers, shape.nodes, "trace");
    Courses courses(shape, end_s, columns);
    for (const TraceRow& row : rows) {
        if (row.time_s < end_s) {
            courses.take(row);
        }
    }
    const int together = (shape.workers + most - 1) / most;
    std::vector<TraceLane> lanes;
    for (int first = 0; first < shape.workers; first += together) {
        lanes.push_back(workers_lane(courses, first, std::min(shape.workers, first + together)));
    }
    for (std::size_t server = 0; server < shape.server_nodes.size(); ++server) {
        const std::vector<double> speed = courses.of_server(shape.server_nodes[server]);
        if (*std::min_element(speed.begin(), speed.end()) < 1 - 1e-9) {
            lanes.push_back({.name = fmt::format("server {}", server), .speed = speed});
        }
    }
    return lanes;
}

}  // namespace cohort
