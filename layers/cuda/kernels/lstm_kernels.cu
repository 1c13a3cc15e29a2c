#include "layers/cuda/kernels/lstm_kernels.hpp"
#include "tensor/cuda/element_map.cuh"

namespace cohort::cuda {
namespace {

template <class T>
__global__ void pack_kernel(T* space, LstmParameters<const float> parameters, LstmWeights weights) {
    for (std::int64_t i = thread_number(); i < weights.elements(); i += thread_count()) {
        const LstmPlace place = lstm_place(weights, i);
        space[place.theirs] = from_float<T>(parameters.at[place.parameter][place.ours]);
    }
}

template <class T>
__global__ void unpack_kernel(LstmParameters<float> gradients, const T* space,
                              LstmWeights weights) {
    for (std::int64_t i = thread_number(); i < weights.elements(); i += thread_count()) {
        const LstmPlace place = lstm_place(weights, i);
        gradients.at[place.parameter][place.ours] = to_float(space[place.theirs]);
    }
}

}  // namespace

void pack_lstm_weights(cudaStream_t stream, const LstmWeights& weights, ElementType type,
                       void* space, const LstmParameters<const float>& parameters) {
    const Launch launch = launch_for(weights.elements(), kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        pack_kernel<<<launch.blocks, launch.threads, 0, stream>>>(static_cast<T*>(space),
                                                                  parameters, weights);
    });
    check_launch("weights of an LSTM");
}

void unpack_lstm_gradients(cudaStream_t stream, const LstmWeights& weights, ElementType type,
                           const LstmParameters<float>& gradients, const void* space) {
    const Launch launch = launch_for(weights.elements(), kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        unpack_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            gradients, static_cast<const T*>(space), weights);
    });
    check_launch("gradients of an LSTM");
}

}  // namespace cohort::cuda
