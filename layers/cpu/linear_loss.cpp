// The last linear layer of a language model and its softmax cross entropy in one, so that logits
// [T,V] of few rows exist at a time. Rows come in chunks. For a chunk, block by block of classes
// that fits into the second-level cache:
//  1. logits, their largest and the sum of the exponentials of each row, which replace them;
//  2. when all blocks have been seen, the divisor of each row is known: exponentials become the
//     gradient of the logits, which is multiplied with weights and inputs at once.
// Cost per row: 6 F V flops and V exponentials; memory per member: kRows V floats, and for all but
// the first, which adds to the flat buffer, the sums of the weight's gradient.
#include "layers/cpu/linear_loss.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/matrix_product.hpp"
#include "layers/cpu/softmax_loops.hpp"

namespace cohort {
namespace {

/// What is known of a row of logits. The label's logit is taken before it is replaced.
struct RowState {
    float largest = 0;
    double total = 0;  ///< of e^(logit - largest)
    float label_logit = 0;
    std::int64_t best = 0;  ///< class of the largest
};

class LinearLossCpu final : public Kernel {
public:
    LinearLossCpu(const LinearSpec& spec, const KernelContext& context)
        : bias_(spec.options.bias),
          positions_(context.inputs.at(0).shape[0]),
          features_(context.inputs[0].shape[1]),
          classes_(spec.options.features),
          product_(context.precision),
          team_(cpu_team(context.device)),
          used_(static_cast<std::size_t>(team_.size())) {
        traits_.output = {Shape{positions_, classes_}, 1};
        traits_.forward_passes = 0;  // its output is never in memory
        traits_.weight_bytes = static_cast<std::size_t>(features_ * classes_) * sizeof(float);
        const auto room = static_cast<std::int64_t>(cpu_l2_bytes() / 2 / sizeof(float));
        block_ = std::clamp(room / (kRows + features_) / kLine * kLine, kLine, kMostClasses);
        blocks_ = (classes_ + block_ - 1) / block_;
    }

    /// Keeps nothing: plans of several batch sizes are used in turns.
    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> sizes) override {
        const std::int64_t largest = *std::max_element(sizes.begin(), sizes.end());
        const std::int64_t most = std::min(largest * positions_, kRows);
        const auto exponentials = static_cast<std::size_t>(most * classes_) * sizeof(float);
        const auto maxima = static_cast<std::size_t>(most * blocks_) * sizeof(float);
        const auto states = static_cast<std::size_t>(most) * sizeof(RowState);
        return {.backward_scratch = states + exponentials + maxima,
                .backward_shared = static_cast<std::size_t>(partial_floats()) * sizeof(float) *
                                   (used_.size() - 1)};
    }

    void forward(int /*pass*/, const KernelSlice& /*slice*/) override {
        check_invariant(false, "a fused loss has no forward pass of its own");
    }

    void begin_backward(std::byte* /*shared*/) override {
        std::fill(used_.begin(), used_.end(), char{0});
        used_[0] = binding_.adds ? 1 : 0;
    }

    LossSums backward_with_loss(const KernelSlice& slice, const LossSlice& labels,
                                LossKernel& /*loss*/) override {
        const std::int64_t rows = slice.samples * positions_;
        LossSums sums;
        for (std::int64_t first = 0; first < rows; first += kRows) {
            const std::int64_t count = std::min(kRows, rows - first);
            const Chunk chunk{
                .rows = count,
                .inputs = slice.inputs[0] + first * features_,
                .labels = labels.labels + first,
                .scale = labels.scale / static_cast<float>(positions_),
                .gradient = slice.input_gradients[0] == nullptr
                                ? nullptr
                                : slice.input_gradients[0] + first * features_,
                .states = reinterpret_cast<RowState*>(slice.scratch),
                .exponentials = reinterpret_cast<float*>(
                    slice.scratch + static_cast<std::size_t>(count) * sizeof(RowState)),
                .sums = sums_of(slice.shared, slice.member)};
            forward_chunk(chunk, sums);
            backward_chunk(chunk, used_[static_cast<std::size_t>(slice.member)] != 0);
            used_[static_cast<std::size_t>(slice.member)] = 1;
        }
        const auto positions = static_cast<double>(positions_);
        return {.loss = sums.loss / positions, .correct = sums.correct / positions};
    }

    void backward(int /*pass*/, const KernelSlice& /*slice*/) override {
        check_invariant(false, "a fused loss wants labels");
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        if (team_.size() == 1) {
            return;
        }
        team_.run([&](int adder) {
            const auto [first, last] = part_of(classes_, adder, team_.size());
            for (int member = 1; member < team_.size(); ++member) {
                if (used_[static_cast<std::size_t>(member)] == 0) {
                    continue;
                }
                const Sums from = sums_of(shared, member);
                accumulate(binding_.gradients[0] + first * features_,
                           from.weight + first * features_, (last - first) * features_);
                if (bias_) {
                    accumulate(binding_.gradients[1] + first, from.bias + first, last - first);
                }
            }
        });
    }

private:
    static constexpr std::int64_t kRows = 256;
    static constexpr std::int64_t kMostClasses = 2048;  ///< of a block
    static constexpr std::int64_t kLine = 16;           ///< floats

    /// Gradients of weight and bias.
    struct Sums {
        float* weight;
        float* bias;
    };
    struct Chunk {
        std::int64_t rows;
        const float* inputs;
        const std::int32_t* labels;
        float scale;
        float* gradient;  ///< of the inputs, or null
        RowState* states;
        float* exponentials;  ///< block after block, [rows, classes of the block]
        Sums sums;

        [[nodiscard]] float* maxima(std::int64_t classes) const {
            return exponentials + rows * classes;
        }
    };
    struct Block {
        std::int64_t first;  ///< class
        std::int64_t classes;
        [[nodiscard]] bool has(std::int64_t label) const {
            return label >= first && label < first + classes;
        }
    };
    [[nodiscard]] Block block_at(std::int64_t index) const {
        return {index * block_, std::min(block_, classes_ - index * block_)};
    }

    void forward_chunk(const Chunk& chunk, LossSums& sums) const {
        float* maxima = chunk.maxima(classes_);
        for (std::int64_t index = 0; index < blocks_; ++index) {
            const Block block = block_at(index);
            float* logits = chunk.exponentials + chunk.rows * block.first;
            product_('N', 'T', chunk.rows, block.classes, features_, chunk.inputs, features_,
                     binding_.parameters[0] + block.first * features_, features_, 0.0F, logits,
                     block.classes);
            for (std::int64_t row = 0; row < chunk.rows; ++row) {
                maxima[index * chunk.rows + row] = take_in(
                    block, chunk.labels[row], logits + row * block.classes, chunk.states[row]);
            }
        }
        for (std::int64_t row = 0; row < chunk.rows; ++row) {
            const RowState& state = chunk.states[row];
            sums.loss +=
                std::log(state.total) + static_cast<double>(state.largest - state.label_logit);
            sums.correct += state.best == chunk.labels[row] ? 1.0 : 0.0;
        }
    }

    /// Replaces a block of a row's logits by exponentials; the largest logit.
    float take_in(const Block& block, std::int64_t label, float* logits, RowState& state) const {
        const float largest =
            bias_ ? add_bias(logits, binding_.parameters[1] + block.first, block.classes)
                  : largest_of(logits, block.classes);
        if (block.first == 0) {
            state = {.largest = largest};
        }
        if (block.has(label)) {
            state.label_logit = logits[label - block.first];
        }
        if (block.first == 0 || largest > state.largest) {
            state.best =
                block.first + (std::find(logits, logits + block.classes, largest) - logits);
            state.total *= std::exp(static_cast<double>(state.largest - largest));
            state.largest = largest;
        }
        state.total += static_cast<double>(exponentials(logits, block.classes, largest)) *
                       std::exp(static_cast<double>(largest - state.largest));
        return largest;
    }

    void backward_chunk(const Chunk& chunk, bool used) const {
        const float* maxima = chunk.maxima(classes_);
        for (std::int64_t index = 0; index < blocks_; ++index) {
            const Block block = block_at(index);
            float* gradient = chunk.exponentials + chunk.rows * block.first;
            for (std::int64_t row = 0; row < chunk.rows; ++row) {
                const RowState& state = chunk.states[row];
                const double exponent =
                    static_cast<double>(maxima[index * chunk.rows + row] - state.largest);
                scale_row(gradient + row * block.classes, block.classes,
                          static_cast<float>(std::exp(exponent) / state.total) * chunk.scale);
                if (block.has(chunk.labels[row])) {
                    gradient[row * block.classes + chunk.labels[row] - block.first] -= chunk.scale;
                }
            }
            multiply_gradient(chunk, block, gradient, used);
        }
    }

    void multiply_gradient(const Chunk& chunk, const Block& block, const float* gradient,
                           bool used) const {
        const float* weight = binding_.parameters[0] + block.first * features_;
        if (chunk.gradient != nullptr) {
            product_('N', 'N', chunk.rows, features_, block.classes, gradient, block.classes,
                     weight, features_, block.first == 0 ? 0.0F : 1.0F, chunk.gradient, features_);
        }
        product_('T', 'N', block.classes, features_, chunk.rows, gradient, block.classes,
                 chunk.inputs, features_, used ? 1.0F : 0.0F,
                 chunk.sums.weight + block.first * features_, features_);
        if (bias_) {
            float* bias = chunk.sums.bias + block.first;
            if (!used) {
                std::fill_n(bias, block.classes, 0.0F);
            }
            bias_backward(gradient, bias, chunk.rows, block.classes);
        }
    }

    /// Of one member after the first, which has the flat buffer.
    [[nodiscard]] std::int64_t partial_floats() const {
        return (features_ * classes_ + classes_ + kLine - 1) / kLine * kLine;
    }
    [[nodiscard]] Sums sums_of(std::byte* shared, int member) const {
        if (member == 0) {
            return {binding_.gradients[0], bias_ ? binding_.gradients[1] : nullptr};
        }
        float* weight = reinterpret_cast<float*>(shared) + partial_floats() * (member - 1);
        return {weight, weight + features_ * classes_};
    }

    bool bias_;
    std::int64_t positions_;
    std::int64_t features_;
    std::int64_t classes_;
    std::int64_t block_ = 0;  ///< classes of a block
    std::int64_t blocks_ = 0;
    MatrixProduct product_;
    ThreadTeam& team_;
    std::vector<char> used_;  ///< per member: has written its sums
};

}  // namespace

MadeKernel make_linear_loss(const LinearSpec& spec, const KernelContext& context) {
    return make_cpu_kernel<LinearLossCpu>(spec, context);
}

}  // namespace cohort
