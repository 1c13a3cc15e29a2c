#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>

#include "cohort/layers/kernel.hpp"
#include "layers/cuda/dnn/dnn_api.hpp"
#include "layers/cuda/rules/lstm_weights.hpp"
#include "layers/cuda/support.hpp"

// cuDNN's recurrent networks, as far as an LSTM of one layer needs them.
namespace cohort::cuda {

/// The functions that are used beside those of DnnApi, with the header's signatures.
struct RnnTable {
    COHORT_LIBRARY_FUNCTION(dnn_library, create, cudnnCreateRNNDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, destroy, cudnnDestroyRNNDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, set, cudnnSetRNNDescriptor_v8);
    COHORT_LIBRARY_FUNCTION(dnn_library, dropout_create, cudnnCreateDropoutDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, dropout_destroy, cudnnDestroyDropoutDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, dropout_set, cudnnSetDropoutDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, data_create, cudnnCreateRNNDataDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, data_destroy, cudnnDestroyRNNDataDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, data_set, cudnnSetRNNDataDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, tensor_create, cudnnCreateTensorDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, tensor_destroy, cudnnDestroyTensorDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, tensor_set, cudnnSetTensorNdDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, tensor_get, cudnnGetTensorNdDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, space_sizes, cudnnGetRNNTempSpaceSizes);
    COHORT_LIBRARY_FUNCTION(dnn_library, weight_space_size, cudnnGetRNNWeightSpaceSize);
    COHORT_LIBRARY_FUNCTION(dnn_library, weight_params, cudnnGetRNNWeightParams);
    COHORT_LIBRARY_FUNCTION(dnn_library, forward, cudnnRNNForward);
    COHORT_LIBRARY_FUNCTION(dnn_library, backward_data, cudnnRNNBackwardData_v8);
    COHORT_LIBRARY_FUNCTION(dnn_library, backward_weights, cudnnRNNBackwardWeights_v8);
};
/// Loaded at first use. Errors: DeviceError when the library or one of them is missing.
[[nodiscard]] const RnnTable& rnn_table();

template <class T>
using RnnDescriptor = LibraryDescriptor<T, cudnnStatus_t>;
template <class T>
[[nodiscard]] RnnDescriptor<T> rnn_descriptor(cudnnStatus_t (*create)(T*),
                                              cudnnStatus_t (*destroy)(T)) {
    T made = nullptr;
    dnn_check(create(&made), "cudnnCreate...Descriptor");
    return {made, destroy};
}

/// Positions, features and hidden units of an LSTM, and the type of its tensors.
struct LstmShape {
    std::int64_t positions = 0;
    std::int64_t features = 0;
    std::int64_t hidden = 0;
    ElementType type = ElementType::kF32;
};

/// Describes the network. @param dropout  of probability 0
void set_lstm_network(cudnnRNNDescriptor_t network, const LstmShape& shape, Precision precision,
                      cudnnDropoutDescriptor_t dropout);
/// Describes [samples, positions, width], every sequence of full length.
void set_lstm_data(cudnnRNNDataDescriptor_t data, const LstmShape& shape, std::int64_t samples,
                   std::int64_t width);
/// Elements of a tensor without gaps, -1 for one that has some.
[[nodiscard]] std::int64_t packed_elements(cudnnTensorDescriptor_t tensor);

/// What belongs to one number of samples.
class LstmBatch {
public:
    /// @param samples  of a batch [samples, positions, ...]
    LstmBatch(const LstmShape& shape, std::int64_t samples, cudnnHandle_t handle,
              cudnnRNNDescriptor_t network, bool training);

    [[nodiscard]] cudnnRNNDataDescriptor_t input() const noexcept { return input_.get(); }
    [[nodiscard]] cudnnRNNDataDescriptor_t output() const noexcept { return output_.get(); }
    /// Of hidden and cell states, which begin at zero.
    [[nodiscard]] cudnnTensorDescriptor_t state() const noexcept { return state_.get(); }
    [[nodiscard]] std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }
    /// Kept from forward to backward; 0 in inference.
    [[nodiscard]] std::size_t saved_bytes() const noexcept { return saved_bytes_; }

private:
    RnnDescriptor<cudnnRNNDataDescriptor_t> input_;
    RnnDescriptor<cudnnRNNDataDescriptor_t> output_;
    RnnDescriptor<cudnnTensorDescriptor_t> state_;
    std::size_t scratch_bytes_ = 0;
    std::size_t saved_bytes_ = 0;
};

/// The network as cuDNN describes it.
class LstmNetwork {
public:
    LstmNetwork(const LstmShape& shape, Support& support);

    [[nodiscard]] cudnnRNNDescriptor_t get() const noexcept { return network_.get(); }
    [[nodiscard]] std::size_t weight_bytes() const noexcept { return weight_bytes_; }
    [[nodiscard]] const LstmWeights& weights() const noexcept { return weights_; }

private:
    /// Where the library has the parts of its weight space. Errors: DeviceError when they are not
    /// what lstm_weights.hpp says.
    void find_weights(const LstmShape& shape, Support& support);

    RnnDescriptor<cudnnRNNDescriptor_t> network_;
    RnnDescriptor<cudnnDropoutDescriptor_t> dropout_;
    std::size_t weight_bytes_ = 0;
    LstmWeights weights_;
};

}  // namespace cohort::cuda
