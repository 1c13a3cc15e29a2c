#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/core/interface.hpp"
#include "layers/cuda/dnn/dnn_api.hpp"

// cuDNN's graph interface: descriptors that own themselves, graphs of operations, engines that can
// run them, plans.
namespace cohort::cuda {

/// A descriptor of the backend interface: attributes are set, then it is finalized.
class DnnDescriptor {
public:
    using Name = cudnnBackendAttributeName_t;

    explicit DnnDescriptor(cudnnBackendDescriptorType_t type);
    [[nodiscard]] cudnnBackendDescriptor_t get() const noexcept { return descriptor_.get(); }

    void set(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
    void set(Name name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
    void set(Name name, std::span<const std::int64_t> values) {
        set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
    }
    void set(Name name, float value) { set(name, CUDNN_TYPE_FLOAT, 1, &value); }
    void set(Name name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
    void set(Name name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
    void set(Name name, const DnnDescriptor& value) {
        cudnnBackendDescriptor_t descriptor = value.get();
        set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, static_cast<const void*>(&descriptor));
    }
    void set(Name name, cudnnHandle_t value) {
        set(name, CUDNN_TYPE_HANDLE, 1, static_cast<const void*>(&value));
    }

    /// Errors: DeviceError with cuDNN's words.
    void finalize(const char* what);
    /// False: cuDNN does not have it.
    [[nodiscard]] bool try_finalize() noexcept;
    [[nodiscard]] std::int64_t number(Name name) const;

private:
    LibraryDescriptor<cudnnBackendDescriptor_t, cudnnStatus_t> descriptor_;
};

/// A tensor of a graph: extents in the order [N, C, H, W] whatever the order in memory.
struct DnnTensor {
    std::int64_t uid = 0;
    std::array<std::int64_t, 4> dims{};
    std::array<std::int64_t, 4> strides{};
    ElementType type = ElementType::kF32;
    bool is_virtual = false;  ///< exists inside the graph alone
};

/// [N, C, H, W] with channels last in memory, without gaps.
[[nodiscard]] DnnTensor channels_last(std::int64_t uid, const std::array<std::int64_t, 4>& dims,
                                      ElementType type);
/// Bytes from its first to its last element.
[[nodiscard]] std::size_t tensor_bytes(const DnnTensor& tensor) noexcept;
[[nodiscard]] DnnDescriptor make_descriptor(const DnnTensor& tensor);

/// What plans are made for: a GPU that is there, or one that is only described (tests).
class DnnTarget : public Interface {
public:
    /// Sets what tells descriptors of these kinds which GPU it is, before they are finalized.
    virtual void set_on_graph(DnnDescriptor& graph) const = 0;
    virtual void set_on_heuristics(DnnDescriptor& heuristics) const = 0;
    virtual void set_on_plan(DnnDescriptor& plan) const = 0;
};

/// The GPU of a handle.
class HandleTarget final : public DnnTarget {
public:
    /// @param handle  outlives this
    explicit HandleTarget(cudnnHandle_t handle) : handle_(handle) {}
    void set_on_graph(DnnDescriptor& graph) const override {
        graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
    }
    void set_on_heuristics(DnnDescriptor& /*heuristics*/) const override {}  // the graph says it
    void set_on_plan(DnnDescriptor& plan) const override {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
    }

private:
    cudnnHandle_t handle_;
};

/// Operations that refer to tensors, with everything that they refer to.
class DnnGraph {
public:
    /// @param tensors  numbers of those that a run gives places for
    /// @param parts  what the operations refer to; kept
    /// Errors: DeviceError.
    DnnGraph(const DnnTarget& target, std::vector<std::int64_t> tensors,
             std::vector<DnnDescriptor> parts, std::vector<DnnDescriptor> operations);
    [[nodiscard]] const DnnDescriptor& descriptor() const noexcept { return graph_; }
    [[nodiscard]] bool has(std::int64_t tensor) const noexcept;

private:
    std::vector<std::int64_t> tensors_;
    std::vector<DnnDescriptor> parts_;
    std::vector<DnnDescriptor> operations_;
    DnnDescriptor graph_;
};

/// What engines may do.
struct EngineRules {
    bool tensor_cores = true;  ///< false: products in full single precision
    bool deterministic = false;
};
/// @param notes  the engine's own
[[nodiscard]] bool engine_allowed(std::span<const cudnnBackendNumericalNote_t> notes,
                                  const EngineRules& rules) noexcept;

/// An engine with what the heuristics have set for it.
struct EngineConfig {
    DnnDescriptor descriptor;
    std::int64_t engine = 0;  ///< its number among all that can run the graph
    std::string knobs;        ///< "2=3 5=1": numbers of its settings and their values
};

/// Configurations of engines for a graph that keep the rules: those of the heuristics, best first,
/// then the fallbacks.
[[nodiscard]] std::vector<EngineConfig> engine_configs(const DnnTarget& target,
                                                       const DnnGraph& graph,
                                                       const EngineRules& rules);

/// A tensor's place for one run.
struct DnnPlace {
    std::int64_t uid = 0;
    void* data = nullptr;
};

/// A graph with an engine chosen for it.
class DnnPlan {
public:
    /// nullptr: the engine cannot do it after all.
    [[nodiscard]] static std::unique_ptr<DnnPlan> make(const DnnTarget& target,
                                                       std::shared_ptr<const DnnGraph> graph,
                                                       DnnDescriptor config);
    /// Bytes of memory that a run needs besides.
    [[nodiscard]] std::size_t workspace() const noexcept { return workspace_; }
    /// Queues it on the handle's stream. Errors: DeviceError.
    /// @param places  of at most 16 tensors; those that the graph does not have are passed over
    void run(cudnnHandle_t handle, std::span<const DnnPlace> places, void* workspace) const;

private:
    DnnPlan(std::shared_ptr<const DnnGraph> graph, DnnDescriptor config, DnnDescriptor plan);

    std::shared_ptr<const DnnGraph> graph_;
    DnnDescriptor config_;
    DnnDescriptor plan_;
    std::size_t workspace_;
};

}  // namespace cohort::cuda
