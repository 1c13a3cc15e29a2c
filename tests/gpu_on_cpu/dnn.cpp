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

#include "library.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort::on_cpu {
namespace {

constexpr std::int64_t kWorkspace = 1000;  // bytes; odd on purpose

struct Descriptor {
    cudnnBackendDescriptorType_t type{};
    std::map<int, std::vector<std::byte>> attributes;
    int engine = 0;  ///< of configurations and engines
    bool finalized = false;

    template <class T>
    [[nodiscard]] std::vector<T> all(int name) const {
        const std::vector<std::byte>& bytes = attributes.at(name);
        std::vector<T> values(bytes.size() / sizeof(T));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }
    template <class T>
    [[nodiscard]] T one(int name) const {
        return all<T>(name).at(0);
    }
    [[nodiscard]] const Descriptor& at(int name) const { return *one<const Descriptor*>(name); }
};

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

/// A tensor in memory: a virtual one has some of its own.
struct View {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> strides;
    ElementType type{};
    void* data = nullptr;

    [[nodiscard]] std::int64_t index(std::int64_t n, std::int64_t c, std::int64_t h,
                                     std::int64_t w) const {
        const auto clipped = [&](std::int64_t i, std::size_t axis) {
            return dims[axis] == 1 ? 0 : i * strides[axis];
        };
        return clipped(n, 0) + clipped(c, 1) + clipped(h, 2) + clipped(w, 3);
    }
    [[nodiscard]] double get(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
        return read(data, type, index(n, c, h, w));
    }
};

class Memory {
public:
    Memory(const std::vector<std::int64_t>& uids, const std::vector<void*>& pointers) {
        for (std::size_t i = 0; i < uids.size(); ++i) {
            places_[uids[i]] = pointers[i];
        }
    }
    View view(const Descriptor& tensor) {
        View made{.dims = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                  .strides = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
                  .type = type_of(tensor.one<int>(CUDNN_ATTR_TENSOR_DATA_TYPE))};
        const auto uid = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (tensor.attributes.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
            std::vector<float>& own = virtual_[uid];
            own.resize(static_cast<std::size_t>(made.dims[0] * made.strides[0]));
            made.data = own.data();
        } else {
            made.data = places_.at(uid);
        }
        return made;
    }

private:
    static ElementType type_of(int type) {
        return type == CUDNN_DATA_FLOAT      ? ElementType::kF32
               : type == CUDNN_DATA_BFLOAT16 ? ElementType::kBf16
                                             : ElementType::kF16;
    }
    std::map<std::int64_t, void*> places_;
    std::map<std::int64_t, std::vector<float>> virtual_;
};

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
                            for (std::int64_t c = 0; c < filter.dims[1]; ++c) {
                                f(image.index(n, k / outputs * filter.dims[1] + c, h, w),
                                  filter.index(k, c, r, s), result.index(n, k, oh, ow));
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
};
constexpr Direction kForward{
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 2};
constexpr Direction kData{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 0};
constexpr Direction kFilter{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 1};

void convolve(const Descriptor& operation, const Direction& names, Memory& memory) {
    const std::array<View, 3> views{memory.view(operation.at(names.image)),
                                    memory.view(operation.at(names.filter)),
                                    memory.view(operation.at(names.result))};
    const View& out = views[static_cast<std::size_t>(names.out)];
    std::vector<double> sums(static_cast<std::size_t>(out.dims[0] * out.strides[0]), 0.0);
    for_each_product(operation.at(names.convolution), views[0], views[1], views[2],
                     [&](std::int64_t image, std::int64_t filter, std::int64_t result) {
                         const std::array<std::int64_t, 3> at{image, filter, result};
                         double product = 1;
                         for (std::size_t i = 0; i < 3; ++i) {
                             if (static_cast<int>(i) != names.out) {
                                 product *= read(views[i].data, views[i].type, at[i]);
                             }
                         }
                         sums[static_cast<std::size_t>(at[static_cast<std::size_t>(names.out)])] +=
                             product;
                     });
    for (std::size_t i = 0; i < sums.size(); ++i) {
        write(out.data, out.type, static_cast<std::int64_t>(i), sums[i]);
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
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
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
    cast(descriptor)->finalized = true;
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
            default: pointwise(*operation, engine, memory); break;
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
