#include "layers/cuda/dnn/lstm_dnn.hpp"

#include <array>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort::cuda {
namespace {

/// The default may round single precision to tf32.
cudnnMathType_t math_type(Precision precision) {
    switch (precision) {
        case Precision::kF32: return CUDNN_FMA_MATH;
        case Precision::kTf32: return CUDNN_DEFAULT_MATH;
        default: return CUDNN_TENSOR_OP_MATH;
    }
}

}  // namespace

const RnnTable& rnn_table() {
    static const RnnTable table;
    return table;
}

void set_lstm_network(cudnnRNNDescriptor_t network, const LstmShape& shape, Precision precision,
                      cudnnDropoutDescriptor_t dropout) {
    const auto hidden = static_cast<std::int32_t>(shape.hidden);
    dnn_check(rnn_table().set(network, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM,
                              CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                              dnn_type(shape.type), CUDNN_DATA_FLOAT, math_type(precision),
                              static_cast<std::int32_t>(shape.features), hidden, hidden, 1, dropout,
                              CUDNN_RNN_PADDED_IO_ENABLED),
              "cudnnSetRNNDescriptor_v8");
}

void set_lstm_data(cudnnRNNDataDescriptor_t data, const LstmShape& shape, std::int64_t samples,
                   std::int64_t width) {
    const auto positions = static_cast<int>(shape.positions);
    const std::vector<int> lengths(static_cast<std::size_t>(samples), positions);
    dnn_check(rnn_table().data_set(
                  data, dnn_type(shape.type), CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, positions,
                  static_cast<int>(samples), static_cast<int>(width), lengths.data(), nullptr),
              "cudnnSetRNNDataDescriptor");
}

std::int64_t packed_elements(cudnnTensorDescriptor_t tensor) {
    std::array<int, 8> extents{};
    std::array<int, 8> strides{};
    int rank = 0;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    dnn_check(rnn_table().tensor_get(tensor, 3, &type, &rank, extents.data(), strides.data()),
              "cudnnGetTensorNdDescriptor");
    std::int64_t elements = 1;
    bool packed = true;
    for (int axis = rank - 1; axis >= 0; --axis) {
        const auto at = static_cast<std::size_t>(axis);
        packed = packed && (extents[at] == 1 || strides[at] == elements);
        elements *= extents[at];
    }
    return packed ? elements : -1;
}

LstmBatch::LstmBatch(const LstmShape& shape, std::int64_t samples, cudnnHandle_t handle,
                     cudnnRNNDescriptor_t network, bool training)
    : input_(rnn_descriptor(rnn_table().data_create, rnn_table().data_destroy)),
      output_(rnn_descriptor(rnn_table().data_create, rnn_table().data_destroy)),
      state_(rnn_descriptor(rnn_table().tensor_create, rnn_table().tensor_destroy)) {
    set_lstm_data(input_.get(), shape, samples, shape.features);
    set_lstm_data(output_.get(), shape, samples, shape.hidden);
    const auto hidden = static_cast<int>(shape.hidden);
    const std::array<int, 3> extents = {1, static_cast<int>(samples), hidden};
    const std::array<int, 3> strides = {extents[1] * hidden, hidden, 1};
    dnn_check(rnn_table().tensor_set(state_.get(), dnn_type(shape.type), 3, extents.data(),
                                     strides.data()),
              "cudnnSetTensorNdDescriptor");
    dnn_check(rnn_table().space_sizes(handle, network,
                                      training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                      input_.get(), &scratch_bytes_, &saved_bytes_),
              "cudnnGetRNNTempSpaceSizes");
}

LstmNetwork::LstmNetwork(const LstmShape& shape, Support& support)
    : network_(rnn_descriptor(rnn_table().create, rnn_table().destroy)),
      dropout_(rnn_descriptor(rnn_table().dropout_create, rnn_table().dropout_destroy)) {
    const RnnTable& table = rnn_table();
    dnn_check(table.dropout_set(dropout_.get(), support.dnn_handle(), 0.0F, nullptr, 0, 0),
              "cudnnSetDropoutDescriptor");
    set_lstm_network(network_.get(), shape, support.precision(), dropout_.get());
    dnn_check(table.weight_space_size(support.dnn_handle(), network_.get(), &weight_bytes_),
              "cudnnGetRNNWeightSpaceSize");
    find_weights(shape, support);
}

void LstmNetwork::find_weights(const LstmShape& shape, Support& support) {
    const RnnTable& table = rnn_table();
    const auto matrix = rnn_descriptor(table.tensor_create, table.tensor_destroy);
    const auto bias = rnn_descriptor(table.tensor_create, table.tensor_destroy);
    weights_.features = shape.features;
    weights_.hidden = shape.hidden;
    const Buffer space = support.device().allocate(weight_bytes_);
    const auto note = [&](int part, void* address, cudnnTensorDescriptor_t tensor) {
        const std::int64_t elements = address == nullptr ? 0 : packed_elements(tensor);
        if (elements != weights_.part_elements(part)) {
            fail<DeviceError>({.where = "lstm",
                               .what = "cuDNN has its weights in an order that is not known here",
                               .hint = "--device cpu"});
        }
        const auto bytes = static_cast<std::byte*>(address) - static_cast<std::byte*>(space.data());
        weights_.offsets[part] = bytes / static_cast<std::int64_t>(element_bytes(shape.type));
    };
    for (int part = 0; part < LstmWeights::kMatrices; ++part) {
        void* matrix_at = nullptr;
        void* bias_at = nullptr;
        dnn_check(
            table.weight_params(support.dnn_handle(), network_.get(), 0, weight_bytes_,
                                space.data(), part, matrix.get(), &matrix_at, bias.get(), &bias_at),
            "cudnnGetRNNWeightParams");
        note(part, matrix_at, matrix.get());
        if (part < LstmWeights::kGates) {
            note(LstmWeights::kMatrices + part, bias_at, bias.get());
        }
    }
}

}  // namespace cohort::cuda
