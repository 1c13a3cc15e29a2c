#include "layers/cuda/dnn/dnn_graph.hpp"

#include <algorithm>
#include <utility>

namespace cohort::cuda {

namespace {

cudnnBackendDescriptor_t new_descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    dnn_check(dnn().create_descriptor(type, &made), "cudnnBackendCreateDescriptor");
    return made;
}

}  // namespace

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type)
    : descriptor_(new_descriptor(type), dnn().destroy_descriptor) {
}
// These change what cuDNN keeps behind the pointer, so they are not const.
// NOLINTBEGIN(readability-make-member-function-const)
void DnnDescriptor::set(Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                        const void* values) {
    dnn_check(dnn().set_attribute(get(), name, type, count, values), "cudnnBackendSetAttribute");
}
void DnnDescriptor::finalize(const char* what) {
    dnn_check(dnn().finalize(get()), what);
}
bool DnnDescriptor::try_finalize() noexcept {
    return dnn().finalize(get()) == CUDNN_STATUS_SUCCESS;
}
// NOLINTEND(readability-make-member-function-const)
std::int64_t DnnDescriptor::number(Name name) const {
    std::int64_t value = 0;
    std::int64_t count = 0;
    dnn_check(dnn().get_attribute(get(), name, CUDNN_TYPE_INT64, 1, &count, &value),
              "cudnnBackendGetAttribute");
    return value;
}

DnnTensor channels_last(std::int64_t uid, const std::array<std::int64_t, 4>& dims,
                        ElementType type) {
    const auto [n, c, h, w] = dims;
    static_cast<void>(n);
    return {.uid = uid, .dims = dims, .strides = {h * w * c, 1, w * c, c}, .type = type};
}

std::size_t tensor_bytes(const DnnTensor& tensor) noexcept {
    std::int64_t last = 0;
    for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
        last += (tensor.dims[axis] - 1) * tensor.strides[axis];
    }
    return static_cast<std::size_t>(last + 1) * element_bytes(tensor.type);
}

DnnDescriptor make_descriptor(const DnnTensor& tensor) {
    constexpr std::int64_t kAlignment = 16;  // the arena's and the flat buffers' are larger
    DnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, dnn_type(tensor.type));
    made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(tensor.dims));
    made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span(tensor.strides));
    made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    if (tensor.is_virtual) {
        made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    }
    made.finalize("cuDNN tensor");
    return made;
}

DnnGraph::DnnGraph(const DnnTarget& target, std::vector<std::int64_t> tensors,
                   std::vector<DnnDescriptor> parts, std::vector<DnnDescriptor> operations)
    : tensors_(std::move(tensors)),
      parts_(std::move(parts)),
      operations_(std::move(operations)),
      graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    std::vector<cudnnBackendDescriptor_t> descriptors;
    for (const DnnDescriptor& operation : operations_) {
        descriptors.push_back(operation.get());
    }
    target.set_on_graph(graph_);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               static_cast<std::int64_t>(descriptors.size()),
               static_cast<const void*>(descriptors.data()));
    graph_.finalize("cuDNN operation graph");
}

bool DnnGraph::has(std::int64_t tensor) const noexcept {
    return std::find(tensors_.begin(), tensors_.end(), tensor) != tensors_.end();
}

bool engine_allowed(std::span<const cudnnBackendNumericalNote_t> notes,
                    const EngineRules& rules) noexcept {
    return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
        switch (note) {
            case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return !rules.tensor_cores;
            case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return rules.deterministic;
            case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return true;
            default: return false;
        }
    });
}

namespace {

DnnDescriptor engine_of(const DnnDescriptor& config) {
    DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t target = engine.get();
    std::int64_t count = 0;
    dnn_check(
        dnn().get_attribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, static_cast<void*>(&target)),
        "cuDNN engine");
    return engine;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const DnnDescriptor& engine) {
    std::int64_t count = 0;
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    dnn_check(dnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                  &count, notes.data()),
              "cuDNN numerical notes");
    notes.resize(static_cast<std::size_t>(count));
    return notes;
}

std::string knobs_of(const DnnDescriptor& config) {
    std::vector<DnnDescriptor> knobs;
    std::vector<cudnnBackendDescriptor_t> targets;
    for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
        targets.push_back(knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).get());
    }
    std::int64_t count = 0;
    dnn_check(dnn().get_attribute(config.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, &count,
                                  static_cast<void*>(targets.data())),
              "cuDNN knobs");
    std::string text;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        cudnnBackendKnobType_t type{};
        std::int64_t one = 0;
        dnn_check(dnn().get_attribute(targets[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                      CUDNN_TYPE_KNOB_TYPE, 1, &one, &type),
                  "cuDNN knob");
        text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(type)) + "=" +
                std::to_string(knobs[i].number(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    }
    return text;
}

/// Adds one mode's configurations; a mode that has none, or cannot be asked, adds nothing.
void add_configs(const DnnTarget& target, const DnnGraph& graph, cudnnBackendHeurMode_t mode,
                 const EngineRules& rules, std::vector<EngineConfig>& configs) {
    DnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    target.set_on_heuristics(heuristics);
    std::int64_t count = 0;
    if (!heuristics.try_finalize() ||
        dnn().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                            nullptr) != CUDNN_STATUS_SUCCESS ||
        count == 0) {
        return;
    }
    std::vector<DnnDescriptor> found;
    std::vector<cudnnBackendDescriptor_t> targets;
    for (std::int64_t i = 0; i < count; ++i) {
        targets.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
    }
    std::int64_t filled = 0;
    dnn_check(dnn().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &filled,
                                  static_cast<void*>(targets.data())),
              "cuDNN heuristics");
    for (std::size_t i = 0; i < static_cast<std::size_t>(filled); ++i) {
        const DnnDescriptor engine = engine_of(found[i]);
        if (engine_allowed(notes_of(engine), rules)) {
            std::string knobs = knobs_of(found[i]);
            configs.push_back({std::move(found[i]), engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                               std::move(knobs)});
        }
    }
}

}  // namespace

std::vector<EngineConfig> engine_configs(const DnnTarget& target, const DnnGraph& graph,
                                         const EngineRules& rules) {
    std::vector<EngineConfig> configs;
    add_configs(target, graph, CUDNN_HEUR_MODE_A, rules, configs);
    add_configs(target, graph, CUDNN_HEUR_MODE_FALLBACK, rules, configs);
    return configs;
}

std::unique_ptr<DnnPlan> DnnPlan::make(const DnnTarget& target,
                                       std::shared_ptr<const DnnGraph> graph,
                                       DnnDescriptor config) {
    DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    target.set_on_plan(plan);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!plan.try_finalize()) {
        return nullptr;
    }
    return std::unique_ptr<DnnPlan>(
        new DnnPlan(std::move(graph), std::move(config), std::move(plan)));
}

DnnPlan::DnnPlan(std::shared_ptr<const DnnGraph> graph, DnnDescriptor config, DnnDescriptor plan)
    : graph_(std::move(graph)),
      config_(std::move(config)),
      plan_(std::move(plan)),
      workspace_(static_cast<std::size_t>(plan_.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {
}

void DnnPlan::run(cudnnHandle_t handle, std::span<const DnnPlace> places, void* workspace) const {
    constexpr std::size_t kMost = 16;
    std::array<std::int64_t, kMost> uids{};
    std::array<void*, kMost> pointers{};
    std::size_t used = 0;
    for (const DnnPlace& place : places) {
        if (graph_->has(place.uid)) {
            uids.at(used) = place.uid;
            pointers.at(used) = place.data;
            ++used;
        }
    }
    const auto count = static_cast<std::int64_t>(used);
    DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
             static_cast<const void*>(pointers.data()));
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
             static_cast<const void*>(&workspace));
    pack.finalize("cuDNN variant pack");
    dnn_check(dnn().execute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace cohort::cuda
