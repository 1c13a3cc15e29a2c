#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/layers/kernel.hpp"
#include "layers/cuda/dnn/dnn_graph.hpp"

namespace cohort::cuda {

class Support;

/// One way of doing an operation.
struct PlanVariant {
    std::shared_ptr<const DnnGraph> graph;  ///< null: kernels of our own, all of it in `rest`
    /// Queues what has to be done besides with this variant; measured with it. May be empty.
    /// @param memory  of the tensors, in the order of PlanRequest::tensors
    std::function<void(std::span<void* const> memory)> rest;
    int kind = 0;  ///< the asking layer's number for it
    /// The engine is taken only if NaN in the first tensor still shows in the output: a ReLU
    /// inside a graph may make 0 of NaN, and a run that diverged would not be noticed.
    bool must_keep_nan = false;
    /// Its engines are compiled when their plans are made: few are tried, and only where the
    /// operation is measured, not for batches of other sizes that take over its choice.
    bool compiled = false;
};

/// Adds the variant that `make` makes; none where this version of cuDNN does not know its graph.
template <class F>
void add_if_known(std::vector<PlanVariant>& variants, const F& make) {
    try {
        variants.push_back(make());
    } catch (const DeviceError&) {
        return;
    }
}

/// What a plan is wanted for.
struct PlanRequest {
    std::string what;  ///< for messages and as the key of the choice: all but the batch's size
    std::int64_t samples = 1;
    EngineRules rules;
    /// Makes the variants; called only when no plan is there. Without measuring, the first variant
    /// that has an engine is taken.
    std::function<std::vector<PlanVariant>()> variants;
    /// What the graphs have that is not virtual; the first is an input, the last the output.
    std::vector<DnnTensor> tensors;
    TuningCache* tuning = nullptr;
};

/// A plan and the variant that it is of.
struct ChosenPlan {
    std::unique_ptr<DnnPlan> plan;  ///< null: the variant has no graph
    int variant = -1;               ///< -1: there is none
    int kind = 0;                   ///< the variant's

    [[nodiscard]] bool found() const noexcept { return variant >= 0; }
    /// Bytes.
    [[nodiscard]] std::size_t workspace() const noexcept {
        return plan == nullptr ? 0 : plan->workspace();
    }
};

/// Without measuring: the first engine that can, of the first variant that has one and needs
/// neither a trial run nor a compiler.
[[nodiscard]] ChosenPlan first_plan(const DnnTarget& target,
                                    const std::vector<PlanVariant>& variants,
                                    const EngineRules& rules);

/// What was fastest for one size, of the variants that need no compiler.
struct EngineChoice {
    int variant = -1;
    std::int64_t engine = 0;
    std::string knobs;
};
/// By the batch's size.
using EngineChoices = std::map<std::int64_t, EngineChoice>;

/// The choice for the size nearest to `samples`, no further away than a factor of two; nullptr:
/// there is none.
[[nodiscard]] const EngineChoice* nearest_choice(const EngineChoices& choices,
                                                 std::int64_t samples) noexcept;

/// Plans of one replica: layers with the same problem share them.
class DnnPlans {
public:
    /// Finds or makes a plan; it lives as long as somebody holds it. In this order:
    ///  1. deterministic: the heuristics' first;
    ///  2. the choice of the tuning cache for this size;
    ///  3. what was fastest for the nearest size that this replica has a choice for, if it can do
    ///     this size too;
    ///  4. candidates are measured on memory of their own (see trials.hpp). Where there is too
    ///     little memory for that, the heuristics' first is taken and not remembered.
    /// Errors: DeviceError when no engine can do it.
    [[nodiscard]] std::shared_ptr<const ChosenPlan> get(Support& support,
                                                        const PlanRequest& request);
    /// The same without measuring, for what there may be no engine for: see first_plan(). `what`
    /// names the batch's size too.
    [[nodiscard]] std::shared_ptr<const ChosenPlan> first(
        Support& support, const std::string& what, const EngineRules& rules,
        const std::function<std::vector<PlanVariant>()>& variants);

private:
    using Key = std::pair<std::string, std::int64_t>;  ///< what, and the batch's size
    [[nodiscard]] std::shared_ptr<const ChosenPlan> shared(Support& support, const Key& key,
                                                           const std::function<ChosenPlan()>& make);

    std::map<Key, std::weak_ptr<const ChosenPlan>> plans_;
    std::map<std::string, EngineChoices> choices_;
};

}  // namespace cohort::cuda
