// What the backend uses of cuDNN's recurrent networks: an LSTM of one layer in plain loops. Its
// weight space has gaps and an order of its own; what it keeps is more per sample in small batches.
#include <cudnn.h>

#include <array>
#include <vector>

#include "library.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort::on_cpu {
namespace {

constexpr std::size_t kWorkspace = 300;
constexpr std::size_t kMoreKept = 1000;  // bytes
constexpr int kGates = 4;

struct Network {
    ElementType type{};
    std::int64_t features = 0;
    std::int64_t hidden = 0;
    bool padded = false;
};
struct Data {
    ElementType type{};
    std::int64_t positions = 0;
    std::int64_t samples = 0;
    std::int64_t width = 0;
};
struct Tensor {
    cudnnDataType_t type{};
    std::vector<int> extents;
    std::vector<int> strides;
};

ElementType type_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT      ? ElementType::kF32
           : type == CUDNN_DATA_BFLOAT16 ? ElementType::kBf16
                                         : ElementType::kF16;
}

template <class T, class Handle>
cudnnStatus_t make(Handle* made) {
    *made = reinterpret_cast<Handle>(new T);
    return CUDNN_STATUS_SUCCESS;
}
template <class T, class Handle>
cudnnStatus_t destroy(Handle made) {
    delete reinterpret_cast<T*>(made);
    return CUDNN_STATUS_SUCCESS;
}
template <class T, class Handle>
T& as(Handle handle) {
    return *reinterpret_cast<T*>(handle);
}

cudnnStatus_t set_dropout(cudnnDropoutDescriptor_t /*dropout*/, cudnnHandle_t /*handle*/,
                          float probability, void* /*states*/, std::size_t /*bytes*/,
                          unsigned long long /*seed*/) {
    return probability == 0.0F ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t set_network(cudnnRNNDescriptor_t network, cudnnRNNAlgo_t algorithm,
                          cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                          cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                          cudnnDataType_t type, cudnnDataType_t math, cudnnMathType_t /*units*/,
                          std::int32_t features, std::int32_t hidden, std::int32_t projected,
                          std::int32_t layers, cudnnDropoutDescriptor_t /*dropout*/,
                          std::uint32_t flags) {
    const bool played = algorithm == CUDNN_RNN_ALGO_STANDARD && mode == CUDNN_LSTM &&
                        bias == CUDNN_RNN_SINGLE_INP_BIAS && direction == CUDNN_UNIDIRECTIONAL &&
                        input == CUDNN_LINEAR_INPUT && math == CUDNN_DATA_FLOAT &&
                        projected == hidden && layers == 1;
    if (!played) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    as<Network>(network) = {type_of(type), features, hidden, flags == CUDNN_RNN_PADDED_IO_ENABLED};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_data(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                       cudnnRNNDataLayout_t layout, int positions, int samples, int width,
                       const int lengths[], void* /*fill*/) {
    for (int n = 0; n < samples; ++n) {
        if (lengths[n] != positions) {
            return CUDNN_STATUS_NOT_SUPPORTED;
        }
    }
    if (layout != CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    as<Data>(data) = {type_of(type), positions, samples, width};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_tensor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank,
                         const int extents[], const int strides[]) {
    as<Tensor>(tensor) = {type, {extents, extents + rank}, {strides, strides + rank}};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t get_tensor(const cudnnTensorDescriptor_t tensor, int asked, cudnnDataType_t* type,
                         int* rank, int extents[], int strides[]) {
    const auto& made = *reinterpret_cast<const Tensor*>(tensor);
    *type = made.type;
    *rank = static_cast<int>(made.extents.size());
    for (int axis = 0; axis < std::min(asked, *rank); ++axis) {
        extents[axis] = made.extents[static_cast<std::size_t>(axis)];
        strides[axis] = made.strides[static_cast<std::size_t>(axis)];
    }
    return CUDNN_STATUS_SUCCESS;
}

/// Elements of a part: matrices 0 to 7, then biases 0 to 3.
std::int64_t part_size(const Network& network, int part) {
    return part < kGates       ? network.hidden * network.features
           : part < 2 * kGates ? network.hidden * network.hidden
                               : network.hidden;
}
/// First element of a part: the last one comes first, and there are gaps.
std::int64_t part_offset(const Network& network, int part) {
    std::int64_t offset = 3;
    for (int other = 3 * kGates - 1; other > part; --other) {
        offset += part_size(network, other) + 5;
    }
    return offset;
}

cudnnStatus_t weight_space_size(cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network,
                                std::size_t* bytes) {
    const auto& made = as<Network>(network);
    *bytes = static_cast<std::size_t>(part_offset(made, 0) + part_size(made, 0)) *
             element_bytes(made.type);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t weight_params(cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network,
                            std::int32_t layer, std::size_t /*bytes*/, const void* space,
                            std::int32_t part, cudnnTensorDescriptor_t matrix, void** matrix_at,
                            cudnnTensorDescriptor_t bias, void** bias_at) {
    const auto& made = as<Network>(network);
    if (layer != 0) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    const auto place = [&](int which) {
        const auto bytes = static_cast<std::size_t>(part_offset(made, which));
        return const_cast<char*>(static_cast<const char*>(space)) +
               bytes * element_bytes(made.type);
    };
    const auto hidden = static_cast<int>(made.hidden);
    const auto width = static_cast<int>(part < kGates ? made.features : made.hidden);
    as<Tensor>(matrix) = {{}, {1, hidden, width}, {hidden * width, width, 1}};
    *matrix_at = place(part);
    *bias_at = nullptr;
    if (part < kGates) {
        as<Tensor>(bias) = {{}, {1, hidden, 1}, {hidden, 1, 1}};
        *bias_at = place(2 * kGates + part);
    }
    return CUDNN_STATUS_SUCCESS;
}

/// Kept of a position of a sample: four gates and the cell's state, double precision.
std::size_t kept_bytes(const Network& network, const Data& data) {
    return kMoreKept + static_cast<std::size_t>(data.samples * data.positions * network.hidden) *
                           (kGates + 1) * sizeof(double);
}
cudnnStatus_t space_sizes(cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network,
                          cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t input,
                          std::size_t* workspace, std::size_t* kept) {
    *workspace = kWorkspace;
    *kept = mode == CUDNN_FWD_MODE_TRAINING ? kept_bytes(as<Network>(network), as<Data>(input)) : 0;
    return CUDNN_STATUS_SUCCESS;
}

/// A run of the network: sizes, and the elements of its memory.
struct Run {
    Network network;
    Data data;
    const void* weights = nullptr;
    double* kept = nullptr;

    [[nodiscard]] double weight(int part, std::int64_t i) const {
        return read(weights, network.type, part_offset(network, part) + i);
    }
    /// Gates 0 to 3, the cell's state: 4.
    [[nodiscard]] double& state(std::int64_t n, std::int64_t t, int which, std::int64_t k) const {
        return kept[((n * data.positions + t) * (kGates + 1) + which) * network.hidden + k];
    }
    [[nodiscard]] std::int64_t at(std::int64_t n, std::int64_t t, std::int64_t width) const {
        return (n * data.positions + t) * width;
    }
};

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

void forward(const Run& run, const void* x, void* y) {
    const auto [type, features, hidden, padded] = run.network;
    for (std::int64_t n = 0; n < run.data.samples; ++n) {
        for (std::int64_t t = 0; t < run.data.positions; ++t) {
            for (std::int64_t k = 0; k < hidden; ++k) {
                for (int gate = 0; gate < kGates; ++gate) {
                    double sum = run.weight(2 * kGates + gate, k);
                    for (std::int64_t f = 0; f < features; ++f) {
                        sum += run.weight(gate, k * features + f) *
                               read(x, type, run.at(n, t, features) + f);
                    }
                    for (std::int64_t h = 0; t > 0 && h < hidden; ++h) {
                        sum += run.weight(kGates + gate, k * hidden + h) *
                               read(y, type, run.at(n, t - 1, hidden) + h);
                    }
                    run.state(n, t, gate, k) = gate == 2 ? std::tanh(sum) : sigmoid(sum);
                }
                const double before = t > 0 ? run.state(n, t - 1, kGates, k) : 0;
                const double cell =
                    run.state(n, t, 1, k) * before + run.state(n, t, 0, k) * run.state(n, t, 2, k);
                run.state(n, t, kGates, k) = cell;
                write(y, type, run.at(n, t, hidden) + k, run.state(n, t, 3, k) * std::tanh(cell));
            }
        }
    }
}

/// Gradients of the gates' sums take the gates' place.
void backward_position(const Run& run, const void* dy, std::int64_t n, std::int64_t t,
                       std::vector<double>& dh, std::vector<double>& dc) {
    const std::int64_t hidden = run.network.hidden;
    for (std::int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const double i = run.state(n, t, 0, k);
        const double f = run.state(n, t, 1, k);
        const double g = run.state(n, t, 2, k);
        const double o = run.state(n, t, 3, k);
        const double squashed = std::tanh(run.state(n, t, kGates, k));
        const double before = t > 0 ? run.state(n, t - 1, kGates, k) : 0;
        const double of_output = dh[at] + read(dy, run.network.type, run.at(n, t, hidden) + k);
        const double of_cell = dc[at] + of_output * o * (1 - squashed * squashed);
        run.state(n, t, 0, k) = of_cell * g * i * (1 - i);
        run.state(n, t, 1, k) = of_cell * before * f * (1 - f);
        run.state(n, t, 2, k) = of_cell * i * (1 - g * g);
        run.state(n, t, 3, k) = of_output * squashed * o * (1 - o);
        dc[at] = of_cell * f;
    }
    for (std::int64_t h = 0; h < hidden; ++h) {
        double sum = 0;
        for (int gate = 0; gate < kGates; ++gate) {
            for (std::int64_t k = 0; k < hidden; ++k) {
                sum += run.weight(kGates + gate, k * hidden + h) * run.state(n, t, gate, k);
            }
        }
        dh[static_cast<std::size_t>(h)] = sum;
    }
}

void backward_data(const Run& run, const void* dy, void* dx) {
    const auto [type, features, hidden, padded] = run.network;
    for (std::int64_t n = 0; n < run.data.samples; ++n) {
        std::vector<double> dh(static_cast<std::size_t>(hidden));
        std::vector<double> dc(static_cast<std::size_t>(hidden));
        for (std::int64_t t = run.data.positions - 1; t >= 0; --t) {
            backward_position(run, dy, n, t, dh, dc);
            for (std::int64_t f = 0; f < features; ++f) {
                double sum = 0;
                for (int gate = 0; gate < kGates; ++gate) {
                    for (std::int64_t k = 0; k < hidden; ++k) {
                        sum += run.weight(gate, k * features + f) * run.state(n, t, gate, k);
                    }
                }
                write(dx, type, run.at(n, t, features) + f, sum);
            }
        }
    }
}

/// Adds to the weight space `to`.
void backward_weights(const Run& run, const void* x, const void* y, void* to) {
    const auto [type, features, hidden, padded] = run.network;
    const std::int64_t positions = run.data.positions;
    const auto add = [&](int part, std::int64_t i, auto&& value) {
        double sum = 0;
        for (std::int64_t row = 0; row < run.data.samples * positions; ++row) {
            sum += value(row / positions, row % positions);
        }
        const std::int64_t at = part_offset(run.network, part) + i;
        write(to, type, at, read(to, type, at) + sum);
    };
    for (int gate = 0; gate < kGates; ++gate) {
        for (std::int64_t k = 0; k < hidden; ++k) {
            const auto slope = [&](std::int64_t n, std::int64_t t) {
                return run.state(n, t, gate, k);
            };
            add(2 * kGates + gate, k, slope);
            for (std::int64_t f = 0; f < features; ++f) {
                add(gate, k * features + f, [&](std::int64_t n, std::int64_t t) {
                    return slope(n, t) * read(x, type, run.at(n, t, features) + f);
                });
            }
            for (std::int64_t h = 0; h < hidden; ++h) {
                add(kGates + gate, k * hidden + h, [&](std::int64_t n, std::int64_t t) {
                    return t == 0 ? 0 : slope(n, t) * read(y, type, run.at(n, t - 1, hidden) + h);
                });
            }
        }
    }
}

/// Refuses what the library would: unpacked sequences without the flag, too little memory.
bool usable(const Run& run, std::size_t workspace, bool training, std::size_t kept) {
    return run.network.padded && workspace >= kWorkspace &&
           (!training || kept >= kept_bytes(run.network, run.data));
}

cudnnStatus_t run_forward(cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network,
                          cudnnForwardMode_t mode, const std::int32_t /*lengths*/[],
                          cudnnRNNDataDescriptor_t input, const void* x,
                          cudnnRNNDataDescriptor_t /*output*/, void* y,
                          cudnnTensorDescriptor_t /*h*/, const void* hx, void* /*hy*/,
                          cudnnTensorDescriptor_t /*c*/, const void* cx, void* /*cy*/,
                          std::size_t /*weight_bytes*/, const void* weights,
                          std::size_t workspace_bytes, void* workspace, std::size_t kept_bytes,
                          void* kept) {
    const Run run{as<Network>(network), as<Data>(input), weights, static_cast<double*>(kept)};
    const bool training = mode == CUDNN_FWD_MODE_TRAINING;
    if (!usable(run, workspace_bytes, training, kept_bytes) || hx != nullptr || cx != nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    submit([run, training, x, y, workspace] {
        spoil(workspace, kWorkspace);
        Run whole = run;
        std::vector<double> own;
        if (!training) {
            own.resize(on_cpu::kept_bytes(run.network, run.data) / sizeof(double));
            whole.kept = own.data();
        }
        forward(whole, x, y);
    });
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t run_backward_data(
    cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network, const std::int32_t /*lengths*/[],
    cudnnRNNDataDescriptor_t /*output*/, const void* /*y*/, const void* dy,
    cudnnRNNDataDescriptor_t input, void* dx, cudnnTensorDescriptor_t /*h*/, const void* /*hx*/,
    const void* /*dhy*/, void* /*dhx*/, cudnnTensorDescriptor_t /*c*/, const void* /*cx*/,
    const void* /*dcy*/, void* /*dcx*/, std::size_t /*weight_bytes*/, const void* weights,
    std::size_t workspace_bytes, void* workspace, std::size_t kept_bytes, void* kept) {
    const Run run{as<Network>(network), as<Data>(input), weights, static_cast<double*>(kept)};
    if (!usable(run, workspace_bytes, true, kept_bytes) || dx == nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    submit([run, dy, dx, workspace] {
        spoil(workspace, kWorkspace);
        backward_data(run, dy, dx);
    });
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t run_backward_weights(cudnnHandle_t /*handle*/, cudnnRNNDescriptor_t network,
                                   cudnnWgradMode_t mode, const std::int32_t /*lengths*/[],
                                   cudnnRNNDataDescriptor_t input, const void* x,
                                   cudnnTensorDescriptor_t /*h*/, const void* /*hx*/,
                                   cudnnRNNDataDescriptor_t /*output*/, const void* y,
                                   std::size_t /*weight_bytes*/, void* gradients,
                                   std::size_t workspace_bytes, void* workspace,
                                   std::size_t kept_bytes, void* kept) {
    const Run run{as<Network>(network), as<Data>(input), nullptr, static_cast<double*>(kept)};
    if (!usable(run, workspace_bytes, true, kept_bytes) || mode != CUDNN_WGRAD_MODE_ADD) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    submit([run, x, y, gradients, workspace] {
        spoil(workspace, kWorkspace);
        backward_weights(run, x, y, gradients);
    });
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void add_rnn(Functions& functions) {
    const auto add = [&](const char* name, auto* function) {
        functions[name] = reinterpret_cast<void*>(function);
    };
    add("cudnnCreateRNNDescriptor", &make<Network, cudnnRNNDescriptor_t>);
    add("cudnnDestroyRNNDescriptor", &destroy<Network, cudnnRNNDescriptor_t>);
    add("cudnnSetRNNDescriptor_v8", &set_network);
    add("cudnnCreateDropoutDescriptor", &make<int, cudnnDropoutDescriptor_t>);
    add("cudnnDestroyDropoutDescriptor", &destroy<int, cudnnDropoutDescriptor_t>);
    add("cudnnSetDropoutDescriptor", &set_dropout);
    add("cudnnCreateRNNDataDescriptor", &make<Data, cudnnRNNDataDescriptor_t>);
    add("cudnnDestroyRNNDataDescriptor", &destroy<Data, cudnnRNNDataDescriptor_t>);
    add("cudnnSetRNNDataDescriptor", &set_data);
    add("cudnnCreateTensorDescriptor", &make<Tensor, cudnnTensorDescriptor_t>);
    add("cudnnDestroyTensorDescriptor", &destroy<Tensor, cudnnTensorDescriptor_t>);
    add("cudnnSetTensorNdDescriptor", &set_tensor);
    add("cudnnGetTensorNdDescriptor", &get_tensor);
    add("cudnnGetRNNTempSpaceSizes", &space_sizes);
    add("cudnnGetRNNWeightSpaceSize", &weight_space_size);
    add("cudnnGetRNNWeightParams", &weight_params);
    add("cudnnRNNForward", &run_forward);
    add("cudnnRNNBackwardData_v8", &run_backward_data);
    add("cudnnRNNBackwardWeights_v8", &run_backward_weights);
}

}  // namespace cohort::on_cpu
