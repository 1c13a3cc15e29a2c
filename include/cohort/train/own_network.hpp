#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cohort/model/graph.hpp"
#include "cohort/model/trainable_model.hpp"

namespace cohort {

/// A network that the program computes by means of its own, in place of TrainOptions::model. Every
/// rank has it; only workers, and rank 0 for evaluations, compute.
struct OwnNetwork {
    /// Its tensors and their initial values (make_tensor_graph), the same on all ranks.
    Graph graph;
    /// Makes it on a device, which outlives it: once for a worker's steps, once for evaluations
    /// beside training.
    std::function<std::unique_ptr<TrainableModel>(Device&)> make;
    bool evaluates = true;  ///< false: there is nothing to evaluate with
};

}  // namespace cohort
