#include "sim/cluster/worker_lanes.hpp"

namespace cohort {

void WorkerLanes::span(int worker, LaneSpan::Kind kind, double begin_s, double end_s) {
    if (end_s <= begin_s) {
        return;
    }
    Totals& total = totals_.at(static_cast<std::size_t>(worker));
    switch (kind) {
        case LaneSpan::Kind::kInput:
        case LaneSpan::Kind::kCompute: total.busy_s += end_s - begin_s; break;
        case LaneSpan::Kind::kWait: total.wait_s += end_s - begin_s; break;
        default: break;
    }
    if (spans_.size() < most_) {
        spans_.push_back({.worker = worker, .kind = kind, .begin_s = begin_s, .end_s = end_s});
    }
}

void WorkerLanes::used(int worker, double cpu_core_s, double bytes) {
    Totals& total = totals_.at(static_cast<std::size_t>(worker));
    total.cpu_core_s += cpu_core_s;
    total.bytes += bytes;
}

}  // namespace cohort
