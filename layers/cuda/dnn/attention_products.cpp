#include "layers/cuda/dnn/attention_products.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::cuda {
namespace {

/// Scores of the samples that are worked on at a time take at most this, if it is more than one:
/// with the gradient they stay within the second-level cache (40 MiB of an A100, 50 of an H100).
constexpr std::size_t kScoreBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostMatrices = 65535;  // of a product: blocks of a grid in its third extent

}  // namespace

AttentionProducts::AttentionProducts(const AttentionSpec& spec, const KernelContext& context)
    : causal_(spec.options.causal), context_(context), support_(support_of(context)) {
    const TensorFormat& joined = context.inputs.at(0);
    const std::int64_t features = joined.shape[1] / 3;
    const auto unit = static_cast<std::int64_t>(16 / element_bytes(joined.type));
    const auto up = [unit](std::int64_t count) { return (count + unit - 1) / unit * unit; };
    sample_ = {.samples = 1,
               .positions = joined.shape[0],
               .heads = spec.options.heads,
               .width = features / spec.options.heads,
               .type = joined.type};
    sample_.padded_positions = up(sample_.positions);
    sample_.padded_width = up(sample_.width);
    const std::size_t bytes = static_cast<std::size_t>(sample_.scores()) * sizeof(float);
    parts_ = PartSizes(std::clamp(static_cast<std::int64_t>(kScoreBytes / bytes), std::int64_t{1},
                                  std::max<std::int64_t>(kMostMatrices / sample_.heads, 1)));
}

KernelMemory AttentionProducts::prepare(std::int64_t samples) {
    KernelMemory memory;
    for (const std::int64_t count : parts_.add(samples)) {
        if (!products_.contains(count)) {
            products_.emplace(count, make(shape_of(count)));
        }
        const std::size_t scratch = products_.at(count).scratch;
        memory.forward_scratch =
            std::max(memory.forward_scratch, layout(count, kForwardParts).bytes(scratch));
        if (context_.training) {
            memory.backward_scratch =
                std::max(memory.backward_scratch, layout(count, kBackwardParts).bytes(scratch));
        }
    }
    return memory;
}

void AttentionProducts::forget(std::int64_t samples) {
    for (const std::int64_t count : parts_.remove(samples)) {
        products_.erase(count);
    }
}

void AttentionProducts::forward(const KernelSlice& slice) {
    for (std::int64_t first = 0; first < slice.samples; first += parts_.most()) {
        forward_some(slice, first, std::min(parts_.most(), slice.samples - first));
    }
}

void AttentionProducts::backward(const KernelSlice& slice) {
    for (std::int64_t first = 0; first < slice.samples; first += parts_.most()) {
        backward_some(slice, first, std::min(parts_.most(), slice.samples - first));
    }
}

HeadShape AttentionProducts::shape_of(std::int64_t samples) const {
    HeadShape shape = sample_;
    shape.samples = samples;
    return shape;
}
AttentionProducts::Layout AttentionProducts::layout(std::int64_t samples, int parts) const {
    const HeadShape shape = shape_of(samples);
    const auto scores = static_cast<std::size_t>(shape.scores());
    Layout made;
    made.part = static_cast<std::size_t>(shape.part_elements()) * element_bytes(shape.type);
    made.parts = padded(static_cast<std::size_t>(parts) * made.part);
    made.scores = padded(scores * sizeof(float));
    made.probabilities =
        shape.type == ElementType::kF32 ? 0 : padded(scores * element_bytes(shape.type));
    made.squares = parts == kBackwardParts ? 2 : 1;
    return made;
}

AttentionProducts::Products AttentionProducts::make(const HeadShape& shape) const {
    const std::int64_t positions = shape.padded_positions;
    const std::int64_t width = shape.padded_width;
    const auto product = [&](ProductShape asked) {
        asked.batch = shape.matrices();
        asked.in = shape.type;
        return std::make_unique<Product>(asked, context_);
    };
    Products made;
    made.scores =
        product({.rows = positions, .columns = positions, .depth = width, .transpose_b = true});
    made.output =
        product({.rows = positions, .columns = width, .depth = positions, .out = shape.type});
    made.scratch = std::max(made.scores->scratch_bytes(), made.output->scratch_bytes());
    if (context_.training) {
        made.keys = product({.rows = positions,
                             .columns = width,
                             .depth = positions,
                             .transpose_a = true,
                             .out = shape.type});
        made.scratch = std::max(made.scratch, made.keys->scratch_bytes());
    }
    return made;
}

std::byte* AttentionProducts::at(const float* tensor, std::int64_t sample,
                                 std::int64_t width) const {
    const auto elements = static_cast<std::size_t>(sample * sample_.positions * width);
    return reinterpret_cast<std::byte*>(const_cast<float*>(tensor)) +
           elements * element_bytes(sample_.type);
}
Scores AttentionProducts::scores_of(const KernelSlice& slice, std::int64_t first,
                                    std::int64_t samples, std::byte* scores) const {
    return {.shape = shape_of(samples),
            .causal = causal_,
            .scale = 1.0F / std::sqrt(static_cast<float>(sample_.width)),
            .scores = reinterpret_cast<float*>(scores),
            .divisors = slice.saved == nullptr
                            ? nullptr
                            : reinterpret_cast<float*>(slice.saved) + first * divisors()};
}

void AttentionProducts::forward_some(const KernelSlice& slice, std::int64_t first,
                                     std::int64_t samples) {
    const Products& made = products_.at(samples);
    const Layout places = layout(samples, kForwardParts);
    std::byte* queries = slice.scratch;
    std::byte* keys = queries + places.part;
    std::byte* values = keys + places.part;
    std::byte* output = values + places.part;
    std::byte* scores = places.score_place(slice.scratch, 0);
    std::byte* probabilities = places.probability_place(slice.scratch, 0);
    std::byte* scratch = places.product_place(slice.scratch);
    const Scores rows = scores_of(slice, first, samples, scores);
    split_heads(support_.stream(), rows.shape, 3, at(slice.inputs[0], first, 3 * features()),
                queries);
    made.scores->run(queries, keys, scores, nullptr, scratch);
    softmax_scores(support_.stream(), rows, probabilities);
    made.output->run(probabilities, values, output, nullptr, scratch);
    merge_heads(support_.stream(), rows.shape, 1, output, at(slice.output, first, features()));
}

void AttentionProducts::backward_some(const KernelSlice& slice, std::int64_t first,
                                      std::int64_t samples) {
    const Products& made = products_.at(samples);
    const Layout places = layout(samples, kBackwardParts);
    std::byte* queries = slice.scratch;
    std::byte* keys = queries + places.part;
    std::byte* values = keys + places.part;
    std::byte* output_gradient = values + places.part;
    std::byte* queries_gradient = output_gradient + places.part;
    std::byte* keys_gradient = queries_gradient + places.part;
    std::byte* values_gradient = keys_gradient + places.part;
    std::byte* scores = places.score_place(slice.scratch, 0);
    std::byte* gradient = places.score_place(slice.scratch, 1);
    std::byte* probabilities = places.probability_place(slice.scratch, 0);
    std::byte* scores_gradient = places.probability_place(slice.scratch, 1);
    std::byte* scratch = places.product_place(slice.scratch);
    const Scores rows = scores_of(slice, first, samples, scores);
    split_heads(support_.stream(), rows.shape, 3, at(slice.inputs[0], first, 3 * features()),
                queries);
    split_heads(support_.stream(), rows.shape, 1, at(slice.output_gradient, first, features()),
                output_gradient);
    made.scores->run(queries, keys, scores, nullptr, scratch);
    made.scores->run(output_gradient, values, gradient, nullptr, scratch);
    softmax_scores_backward(support_.stream(), rows, reinterpret_cast<const float*>(gradient),
                            probabilities, scores_gradient);
    made.keys->run(probabilities, output_gradient, values_gradient, nullptr, scratch);
    made.keys->run(scores_gradient, queries, keys_gradient, nullptr, scratch);
    made.output->run(scores_gradient, keys, queries_gradient, nullptr, scratch);
    merge_heads(support_.stream(), rows.shape, 3, queries_gradient,
                at(slice.input_gradients[0], first, 3 * features()));
}

}  // namespace cohort::cuda
