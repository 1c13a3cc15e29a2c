#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/data/lease.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/sched/job_options.hpp"
#include "cohort/sched/mode_options.hpp"
#include "cohort/sched/predictor.hpp"
#include "records/timeline/run_timeline.hpp"
#include "sched/plan/push_tree.hpp"
#include "sim/cluster/cluster.hpp"

namespace cohort {

/// What a job under the virtual clock is made of.
struct JobSpec {
    ModeChoice choice;
    ModeSetting setting;            ///< of setting.live.size() workers
    std::vector<int> worker_nodes;  ///< [workers]
    std::vector<int> server_nodes;  ///< [servers]; empty with rings
    Workload workload;              ///< times and bytes
    OptimizerKind optimizer = OptimizerKind::kSgd;
    SampleSetInfo train;  ///< leases are cut from its epochs
    std::int64_t budget_samples = 0;
    double lr = 0;
    Schedule schedule;
    double clip_norm = 0;            ///< LearningOptions::clip_norm
    double noise_scale = 0;          ///< 0: measured where a plan needs it
    bool measure_gradients = false;  ///< whatever the mode
    std::uint64_t seed = 1;
    NodeStaging node_staging = NodeStaging::kOff;
    ShardSizes shards = ShardSizes::kEqual;
    RebalanceServers rebalance_servers = RebalanceServers::kOff;
    PushTreeChoice push_tree;
    Wire wire = Wire::kF32;
    // Of the accuracy on the way.
    std::int64_t eval_every_samples = 0;  ///< 0: never, not at the end either
    std::int64_t eval_samples = 0;        ///< until near the target; 0: the whole test set
    bool eval_average = false;            ///< of the mean of the parameters too
    bool target_on_average = false;       ///< it is the one that is to reach the target
    double target_accuracy = 0;           ///< 0: none
    double target_loss = 0;               ///< 0: none
    std::size_t lane_spans = 0;           ///< that are kept
    RunTimeline* timeline = nullptr;      ///< outlives the job; null: none is drawn
    // Of the load of its workers.
    bool telemetry = true;  ///< what they report is kept, for those who choose modes
    /// Makes what forecasts come from, when a mode looks at some. Empty: there are none.
    std::function<std::unique_ptr<Predictor>()> predictor;
    std::size_t records = 0;  ///< that are kept for the result

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(worker_nodes.size()); }
    [[nodiscard]] std::int64_t reference_batch() const noexcept {
        return setting.batch * workers();
    }
    /// Of all parameters or gradients between two nodes.
    [[nodiscard]] double wire_parameter_bytes() const noexcept {
        return workload.parameter_bytes * static_cast<double>(wire_bytes(wire)) / sizeof(float);
    }
    [[nodiscard]] int servers() const noexcept { return static_cast<int>(server_nodes.size()); }
    /// Base cost of a gradient over so many samples.
    [[nodiscard]] VirtualCluster::IterationCost cost_of(std::int64_t samples) const;
    /// Of an update that a worker makes itself, of a gradient that it has: whoever has the
    /// parameters, device or processor, moves the bytes.
    [[nodiscard]] VirtualCluster::IterationCost update_cost(const ClusterProfile& profile) const;
};

}  // namespace cohort
