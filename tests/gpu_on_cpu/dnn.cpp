// What the backend uses of cuDNN's graph interface, in plain loops: convolutions, sums and ReLU.
// Two engines of the heuristics (the first with tensor cores, and its ReLU loses NaN) and a
// fallback that is not deterministic.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dnn_parts.hpp"
#include "library.hpp"
#include "machine.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort::on_cpu {
namespace {

constexpr std::int64_t kWorkspace = 1000;  // bytes; odd on purpose

std::size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
        case CUDNN_TYPE_INT64:
        case CUDNN_TYPE_DOUBLE:
        case CUDNN_TYPE_HANDLE:
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
        case CUDNN_TYPE_BOOLEAN:
        case CUDNN_TYPE_CHAR: return 1;
        default: return 4;
    }
}

Descriptor* cast(cudnnBackendDescriptor_t descriptor) {
    return static_cast<Descriptor*>(descriptor);
}

/// Calls f(image n, c, h, w; filter k, c, r, s; result n, k, oh, ow) for every product.
template <class F>
void for_each_product(const Descriptor& convolution, const View& image, const View& filter,
                      const View& result, F&& f) {
    const auto stride = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto padding = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const auto after = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    const auto dilation = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    for (std::size_t axis = 0; axis < 2; ++axis) {
        const std::int64_t reach = dilation[axis] * (filter.dims[2 + axis] - 1) + 1;
        const std::int64_t room = image.dims[2 + axis] + padding[axis] + after[axis] - reach;
        if (result.dims[2 + axis] != room / stride[axis] + 1) {
            throw std::logic_error("cuDNN refuses a convolution whose result does not fit");
        }
    }
    const std::int64_t groups = image.dims[1] / filter.dims[1];
    const std::int64_t outputs = filter.dims[0] / groups;
    for (std::int64_t n = 0; n < result.dims[0]; ++n) {
        for (std::int64_t k = 0; k < result.dims[1]; ++k) {
            for (std::int64_t oh = 0; oh < result.dims[2]; ++oh) {
                for (std::int64_t ow = 0; ow < result.dims[3]; ++ow) {
                    for (std::int64_t r = 0; r < filter.dims[2]; ++r) {
                        for (std::int64_t s = 0; s < filter.dims[3]; ++s) {
                            const std::int64_t h = oh * stride[0] - padding[0] + r * dilation[0];
                            const std::int64_t w = ow * stride[1] - padding[1] + s * dilation[1];
                            if (h < 0 || h >= image.dims[2] || w < 0 || w >= image.dims[3]) {
                                continue;
                            }
                            const std::int64_t x =
                                image.index(n, k / outputs * filter.dims[1], h, w);
                            const std::int64_t weight = filter.index(k, 0, r, s);
                            const std::int64_t y = result.index(n, k, oh, ow);
                            for (std::int64_t c = 0; c < filter.dims[1]; ++c) {
                                f(x + c * image.strides[1], weight + c * filter.strides[1], y);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The names of a direction's operands; the last is what comes out.
struct Direction {
    int convolution;
    int image;
    int filter;
    int result;
    int out;
    int beta;
};
constexpr Direction kForward{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             2,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Direction kData{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          0,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Direction kFilter{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                            1,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

void convolve(const Descriptor& operation, const Direction& names, Memory& memory) {
    const std::array<View, 3> views{memory.view(operation.at(names.image)),
                                    memory.view(operation.at(names.filter)),
                                    memory.view(operation.at(names.result))};
    const View& out = views[static_cast<std::size_t>(names.out)];
    std::vector<double> sums(static_cast<std::size_t>(out.dims[0] * out.strides[0]), 0.0);
    const auto add_products = [&](const auto& add) {
        for_each_product(operation.at(names.convolution), views[0], views[1], views[2], add);
    };
    const std::array<std::vector<double>, 3> all{names.out == 0 ? sums : views[0].elements(),
                                                 names.out == 1 ? sums : views[1].elements(),
                                                 names.out == 2 ? sums : views[2].elements()};
    const double* x = all[0].data();
    const double* w = all[1].data();
    const double* y = all[2].data();
    double* to = sums.data();
    switch (names.out) {
        case 0: add_products([=](auto i, auto f, auto r) { to[i] += w[f] * y[r]; }); break;
        case 1: add_products([=](auto i, auto f, auto r) { to[f] += x[i] * y[r]; }); break;
        default: add_products([=](auto i, auto f, auto r) { to[r] += x[i] * w[f]; });
    }
    const double kept = static_cast<double>(operation.one<float>(names.beta));
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const double before = kept == 0 ? 0 : kept * read(out.data, out.type, at);
        write(out.data, out.type, at, before + sums[i]);
    }
}

void pointwise(const Descriptor& operation, int engine, Memory& memory) {
    const int mode = operation.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                         .one<int>(CUDNN_ATTR_POINTWISE_MODE);
    const View from = memory.view(operation.at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const View to = memory.view(operation.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    for (std::int64_t n = 0; n < to.dims[0]; ++n) {
        for (std::int64_t c = 0; c < to.dims[1]; ++c) {
            for (std::int64_t h = 0; h < to.dims[2]; ++h) {
                for (std::int64_t w = 0; w < to.dims[3]; ++w) {
                    double value = from.get(n, c, h, w);
                    if (mode == CUDNN_POINTWISE_ADD) {
                        value += memory.view(operation.at(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
                                     .get(n, c, h, w);
                    } else if (engine == 0) {
                        value = std::fmax(value, 0.0);
                    } else {
                        value = value < 0 ? 0.0 : value;
                    }
                    write(to.data, to.type, to.index(n, c, h, w), value);
                }
            }
        }
    }
}

cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type,
                                cudnnBackendDescriptor_t* descriptor) {
    *descriptor = new Descriptor{.type = type};
    if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        ++played_machine().dnn_plans;
    }
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
    if (cast(descriptor)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        --played_machine().dnn_plans;
    }
    delete cast(descriptor);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* values) {
    const auto* bytes = static_cast<const std::byte*>(values);
    cast(descriptor)->attributes[name] = {bytes,
                                          bytes + static_cast<std::size_t>(count) * size_of(type)};
    return cast(descriptor)->finalized ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
    Descriptor& own = *cast(descriptor);
    own.finalized = true;
    if (own.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        own.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                .at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
                .all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)
                .size() > 1) {
        ++played_machine().compiled_plans;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t heuristics_results(const Descriptor& heuristics, std::int64_t asked,
                                 std::int64_t* count, void* values) {
    const bool fallback =
        heuristics.one<int>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
    const std::int64_t most = fallback ? 1 : 2;
    if (asked == 0) {
        *count = most + 1;  // cuDNN counts some that it does not give
        return CUDNN_STATUS_SUCCESS;
    }
    *count = most;
    for (std::int64_t i = 0; i < most; ++i) {
        Descriptor* config = static_cast<Descriptor**>(values)[i];
        config->engine = static_cast<int>(i) + (fallback ? 2 : 0);
        config->finalized = true;
        config->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
            heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t /*type*/, std::int64_t asked,
                            std::int64_t* count, void* values) {
    const Descriptor& own = *cast(descriptor);
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS: return heuristics_results(own, asked, count, values);
        case CUDNN_ATTR_ENGINECFG_ENGINE:
            (*static_cast<Descriptor**>(values))->engine = own.engine;
            *count = 1;
            return CUDNN_STATUS_SUCCESS;
        case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
            constexpr std::array kNotes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                        CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP,
                                        CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
            *static_cast<cudnnBackendNumericalNote_t*>(values) =
                kNotes[static_cast<std::size_t>(own.engine)];
            *count = 1;
            return CUDNN_STATUS_SUCCESS;
        }
        case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
            *static_cast<std::int64_t*>(values) = own.engine;
            *count = 1;
            return CUDNN_STATUS_SUCCESS;
        case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: *count = 0; return CUDNN_STATUS_SUCCESS;
        case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
            *static_cast<std::int64_t*>(values) = kWorkspace;
            *count = 1;
            return CUDNN_STATUS_SUCCESS;
        default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

void run_graph(const Descriptor& graph, int engine, Memory memory) {
    for (const Descriptor* operation :
         graph.all<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        switch (operation->type) {
            case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
                convolve(*operation, kForward, memory);
                break;
            case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
                convolve(*operation, kData, memory);
                break;
            case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
                convolve(*operation, kFilter, memory);
                break;
            case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
                if (!run_fused_pointwise(*operation, memory)) {
                    pointwise(*operation, engine, memory);
                }
                break;
            default: run_fused(*operation, memory); break;
        }
    }
}

cudnnStatus_t execute(cudnnHandle_t /*handle*/, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
    const Descriptor& config = cast(plan)->at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const Descriptor& graph = config.at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    const Memory memory(cast(pack)->all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                        cast(pack)->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
    void* workspace = cast(pack)->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    submit([&graph, memory, workspace, engine = config.engine] {
        spoil(workspace, kWorkspace);
        run_graph(graph, engine, memory);
        spoil(workspace, kWorkspace);
    });
    return CUDNN_STATUS_SUCCESS;
}

std::size_t version() {
    return 1;
}
const char* error_text(cudnnStatus_t /*status*/) {
    return "an error of the library that stands in for cuDNN";
}
void last_error(char* text, std::size_t /*bytes*/) {
    *text = '\0';
}
cudnnStatus_t create(cudnnHandle_t* handle) {
    static int something = 0;
    *handle = reinterpret_cast<cudnnHandle_t>(&something);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy(cudnnHandle_t /*handle*/) {
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_stream(cudnnHandle_t /*handle*/, cudaStream_t /*stream*/) {
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void add_dnn(Functions& functions) {
    const auto add = [&](const char* name, auto* function) {
        functions[name] = reinterpret_cast<void*>(function);
    };
    add("cudnnGetVersion", &version);
    add("cudnnGetErrorString", &error_text);
    add("cudnnGetLastErrorString", &last_error);
    add("cudnnCreate", &create);
    add("cudnnDestroy", &destroy);
    add("cudnnSetStream", &set_stream);
    add("cudnnBackendCreateDescriptor", &create_descriptor);
    add("cudnnBackendDestroyDescriptor", &destroy_descriptor);
    add("cudnnBackendSetAttribute", &set_attribute);
    add("cudnnBackendGetAttribute", &get_attribute);
    add("cudnnBackendFinalize", &finalize);
    add("cudnnBackendExecute", &execute);
}

}  // namespace cohort::on_cpu
