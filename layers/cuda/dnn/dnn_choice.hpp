#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/layers/kernel.hpp"
#include "layers/cuda/dnn/dnn_graph.hpp"

namespace cohort::cuda {

class Support;

/// One way of doing an operation.
struct PlanVariant {
    std::shared_ptr<const DnnGraph> graph;
    /// Queues what has to be done besides with this variant; measured with it. May be empty.
    /// @param memory  of the tensors, in the order of PlanRequest::tensors
    std::function<void(std::span<void* const> memory)> rest;
    /// The engine is taken only if NaN in the first tensor still shows in the output: a ReLU
    /// inside a graph may make 0 of NaN, and a run that diverged would not be noticed.
    bool must_keep_nan = false;
};

/// What a plan is wanted for.
struct PlanRequest {
    std::string what;  ///< for messages and as the key of the choice: operation and problem
    EngineRules rules;
    /// Makes the variants; called only when no plan for `what` is there. Without measuring, the
    /// first variant that has an engine is taken.
    std::function<std::vector<PlanVariant>()> variants;
    /// What the graphs have that is not virtual; the first is an input, the last the output.
    std::vector<DnnTensor> tensors;
    TuningCache* tuning = nullptr;
};

/// A plan and the variant that it is of.
struct ChosenPlan {
    std::unique_ptr<DnnPlan> plan;
    int variant = 0;
};

/// Without measuring: the first engine that can, of the first variant that has one and needs no
/// trial run. A plan that is nullptr: there is none.
[[nodiscard]] ChosenPlan first_plan(const DnnTarget& target,
                                    const std::vector<PlanVariant>& variants,
                                    const EngineRules& rules);

/// Plans of one replica: layers with the same problem share them.
class DnnPlans {
public:
    /// Finds or makes a plan. Candidates are measured on memory of their own, unless the rules say
    /// deterministic or the choice is in the tuning cache. Where there is too little memory to
    /// measure, the heuristics' first is taken and not remembered.
    /// Errors: DeviceError when no engine can do it.
    const ChosenPlan& get(Support& support, const PlanRequest& request);
    /// The same without measuring and for what there may be no engine for: see first_plan().
    const ChosenPlan& first(Support& support, const std::string& what, const EngineRules& rules,
                            const std::function<std::vector<PlanVariant>()>& variants);

private:
    std::map<std::string, ChosenPlan> plans_;
};

}  // namespace cohort::cuda
