#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/loader.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/precision.hpp"
#include "cohort/train/options.hpp"
#include "cohort/train/trainer.hpp"

namespace cohort {

/// Tells a set from others as far as its content is known (chunks shape the order of an epoch),
/// never by its path.
[[nodiscard]] std::string set_identity(const SampleSetInfo& set);

/// Facts that a checkpoint and the run that continues it must share, by name.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> run_identity(
    const TrainOptions& options, const SampleSetInfo& train, const Graph& graph);

/// The device of this rank: device_of_rank() with the GPUs that it sees. When "auto" uses the CPU
/// in spite of GPUs, one worker of the host logs why.
[[nodiscard]] std::string device_of_this_rank(std::string_view option, const RankMap& map,
                                              int rank);

/// Batches in memory that `device` copies fastest from.
[[nodiscard]] HostAllocator host_allocator(Device& device);

/// With --deterministic: what the bits depend on and the options do not say. What workers compute
/// in by default, see precision_facts(); for bf16 on CPUs, of which this host's counts,
/// "avx512_core by oneDNN 2.6.3"; else empty.
[[nodiscard]] std::string arithmetic(const TrainOptions& options, const RankMap& map);

/// What workers compute in: "precision f32 on CPUs, tf32 on GPUs".
[[nodiscard]] std::string precision_facts(const TrainOptions& options, const RankMap& map);

/// @param tuning_file  file of measured choices, read and extended unless `deterministic`; its
/// folder is made if needed
[[nodiscard]] ReplicaOptions replica_options(const Device& device, PrecisionChoice precision,
                                             bool deterministic, const std::string& tuning_file);

/// A loaded batch in the form that the engine takes.
[[nodiscard]] BatchView view_of(const LoadedBatch& batch);

/// Data set, graph and facts of a run that every rank has, whatever its role, opened and checked.
struct JobContext {
    /// @param workers of the run  @param samples, own_network  as TrainEnvironment has them
    /// Errors: those of Trainer::Trainer that concern options and files.
    JobContext(const TrainOptions& run_options, int workers, const SampleOpener& samples = {},
               const OwnNetwork* own_network = nullptr);

    TrainOptions options;
    Hdf5Thread hdf5;
    std::shared_ptr<SampleSource> train_set;
    std::shared_ptr<SampleSource> test_set;
    const OwnNetwork* network;            ///< null: this library computes the graph
    std::vector<std::string> model_news;  ///< of make_graph
    Graph graph;
    OrderOptions order;
    AugmentOptions augment;
    OptimizerOptions optimizer;
    std::int64_t budget_samples;
    Schedule schedule;
    std::int64_t reference_batch;  ///< B: --batch times the workers
    std::string arithmetic;        ///< of the ranks that there are now

    /// Whether the test group can be evaluated.
    [[nodiscard]] bool evaluates() const {
        return computes_network(options) && (network == nullptr || network->evaluates);
    }
};

/// Facts of the job for choosers.
[[nodiscard]] JobFacts job_facts(const JobContext& parts);

}  // namespace cohort
