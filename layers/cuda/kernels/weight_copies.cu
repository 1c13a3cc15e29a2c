#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/weight_copies.hpp"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__device__ void copy_block(const WeightCopy& copy) {
    auto* to = static_cast<T*>(copy.to);
    const std::int64_t elements = copy.form.elements();
    const std::int64_t begin =
        (static_cast<std::int64_t>(blockIdx.x) - copy.first_block) * kCopiesPerBlock;
    const std::int64_t end = min(begin + kCopiesPerBlock, elements);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
        const std::int64_t source = weight_source(copy.form, i);
        to[i] = from_float<T>(source < 0 ? 0.0F : copy.from[source]);
    }
}

__global__ void refresh_kernel(const WeightCopy* table, int entries) {
    const int entry =
        entry_of_block(entries, blockIdx.x, [&](int i) { return table[i].first_block; });
    const WeightCopy copy = table[entry];
    switch (copy.form.type) {
        case ElementType::kF32: copy_block<float>(copy); break;
        case ElementType::kBf16: copy_block<__nv_bfloat16>(copy); break;
        case ElementType::kF16: copy_block<__half>(copy); break;
        case ElementType::kI32: break;
    }
}

struct WeightPlace {
    WeightForm form;
    COHORT_HD std::int64_t operator()(std::int64_t i) const { return weight_place(form, i); }
};
struct ImageSource {
    ImageOrder order;
    COHORT_HD std::int64_t operator()(std::int64_t i) const { return image_source(order, i); }
};
struct ImagePlace {
    ImageOrder order;
    COHORT_HD std::int64_t operator()(std::int64_t i) const { return image_place(order, i); }
};

/// to[i] = from[source(i)], or 0 where that is below 0.
template <class To, class From, class Source>
__global__ void gather_kernel(To* to, const From* from, std::int64_t count, Source source) {
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const std::int64_t at = source(i);
        to[i] = from_float<To>(at < 0 ? 0.0F : to_float(from[at]));
    }
}

template <class To, class From, class Source>
void launch_gather(cudaStream_t stream, const char* name, To* to, const From* from,
                   std::int64_t count, const Source& source) {
    const Launch launch = launch_for(count, kMostBlocks);
    gather_kernel<<<launch.blocks, launch.threads, 0, stream>>>(to, from, count, source);
    check_launch(name);
}

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

void refresh_copies(cudaStream_t stream, const WeightCopy* table, int entries,
                    std::int64_t blocks) {
    if (blocks == 0) {
        return;
    }
    refresh_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(table, entries);
    check_launch("weight copies");
}

void store_weight_gradient(cudaStream_t stream, const WeightForm& form, const void* from,
                           float* gradient) {
    with_type(form.type, [&](auto zero) {
        launch_gather(stream, "weight gradient", gradient, static_cast<const decltype(zero)*>(from),
                      form.outer * form.channels * form.inner, WeightPlace{form});
    });
}

void images_to_channels_last(cudaStream_t stream, const ImageOrder& order, ElementType type,
                             const float* from, void* to, std::int64_t samples) {
    with_type(type, [&](auto zero) {
        launch_gather(stream, "images to channels last", static_cast<decltype(zero)*>(to), from,
                      samples * order.pixels * order.stored, ImageSource{order});
    });
}

void images_to_row_major(cudaStream_t stream, const ImageOrder& order, ElementType type,
                         const void* from, float* to, std::int64_t samples) {
    with_type(type, [&](auto zero) {
        launch_gather(stream, "images to row major", to, static_cast<const decltype(zero)*>(from),
                      samples * order.pixels * order.channels, ImagePlace{order});
    });
}

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
