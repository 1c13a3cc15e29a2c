// Long short-term memory (Hochreiter & Schmidhuber 1997, with forget gates), and its kernel for the
// CPU. Forward: one matrix product for the inputs of all positions of all samples, then
// position by position a product of the hidden states with weight_hidden and the elementwise part.
// Backward through time: position by position, last to first, the elementwise part and a product
// with weight_hidden; then one product each for the inputs' gradient and the two weights'.
// Memory per sample and position: gates and cell state, 5 H floats. Cost per sample: 8 T H (F + H)
// flops forward, twice that backward.
#include <algorithm>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/lstm_loops.hpp"
#include "layers/cpu/matrix_product.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LstmCpu final : public Kernel {
public:
    LstmCpu(const LstmSpec& spec, const KernelContext& context)
        : positions_(context.inputs.at(0).shape[0]),
          features_(context.inputs[0].shape[1]),
          hidden_(spec.options.hidden),
          training_(context.training),
          product_(context.precision),
          team_(cpu_team(context.device)),
          zeros_(static_cast<std::size_t>(hidden_)),
          used_(static_cast<std::size_t>(team_.size())) {
        traits_.output = {Shape{positions_, hidden_}, 1};
        traits_.backward_reads_output = true;
        traits_.saved_bytes =
            training_ ? static_cast<std::size_t>(positions_ * row_floats()) * sizeof(float) : 0;
        traits_.weight_bytes =
            static_cast<std::size_t>(4 * hidden_ * (features_ + hidden_)) * sizeof(float);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        const auto largest =
            static_cast<std::size_t>(*std::max_element(slice_sizes.begin(), slice_sizes.end()));
        const auto rows = static_cast<std::size_t>(positions_ * row_floats());
        return {.forward_scratch = training_ ? 0 : largest * rows * sizeof(float),
                .backward_scratch = 2 * largest * static_cast<std::size_t>(hidden_) * sizeof(float),
                .backward_shared =
                    static_cast<std::size_t>(partial_floats()) * sizeof(float) * used_.size()};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        float* rows = reinterpret_cast<float*>(training_ ? slice.saved : slice.scratch);
        product_('N', 'T', slice.samples * positions_, 4 * hidden_, features_, slice.inputs[0],
                 features_, binding_.parameters[0], features_, 0.0F, rows, row_floats());
        for (std::int64_t t = 0; t < positions_; ++t) {
            const LstmRows at = rows_at(rows, t, slice.samples);
            float* output = slice.output + t * hidden_;
            if (t > 0) {
                product_('N', 'T', slice.samples, 4 * hidden_, hidden_, output - hidden_,
                         at.output_stride, binding_.parameters[1], hidden_, 1.0F, at.rows,
                         at.row_stride);
            }
            lstm_forward(at, binding_.parameters[2], output);
        }
    }

    void begin_backward(std::byte* /*shared*/) override {
        std::fill(used_.begin(), used_.end(), char{0});
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        float* rows = reinterpret_cast<float*>(slice.saved);
        through_time(rows, slice);
        if (slice.input_gradients[0] != nullptr) {
            product_('N', 'N', slice.samples * positions_, features_, 4 * hidden_, rows,
                     row_floats(), binding_.parameters[0], features_, 0.0F,
                     slice.input_gradients[0], features_);
        }
        add_parameter_gradients(rows, slice);
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        const float* total = partial(shared, 0);
        add_member_sums(team_, partial(shared, 0), static_cast<std::size_t>(partial_floats()),
                        used_);
        const std::int64_t input = 4 * hidden_ * features_;
        const std::int64_t hidden = 4 * hidden_ * hidden_;
        std::copy_n(total, input, binding_.gradients[0]);
        std::copy_n(total + input, hidden, binding_.gradients[1]);
        std::copy_n(total + input + hidden, 4 * hidden_, binding_.gradients[2]);
    }

private:
    /// Of one position: gates and cell state.
    [[nodiscard]] std::int64_t row_floats() const { return 5 * hidden_; }

    [[nodiscard]] LstmRows rows_at(float* rows, std::int64_t t, std::int64_t samples) const {
        return {.samples = samples,
                .hidden = hidden_,
                .rows = rows + t * row_floats(),
                .row_stride = positions_ * row_floats(),
                .before = t == 0 ? zeros_.data() : rows + t * row_floats() - hidden_,
                .before_stride = t == 0 ? 0 : positions_ * row_floats(),
                .output_stride = positions_ * hidden_};
    }

    /// Puts the gradients of the gates' sums in the gates' place.
    void through_time(float* rows, const KernelSlice& slice) const {
        const std::int64_t state = slice.samples * hidden_;
        auto* hidden_gradient = reinterpret_cast<float*>(slice.scratch);
        float* cell_gradient = hidden_gradient + state;
        std::fill_n(hidden_gradient, 2 * state, 0.0F);
        for (std::int64_t t = positions_ - 1; t >= 0; --t) {
            const LstmRows at = rows_at(rows, t, slice.samples);
            lstm_backward(at, slice.output_gradient + t * hidden_, hidden_gradient, cell_gradient);
            if (t > 0) {
                product_('N', 'N', slice.samples, hidden_, 4 * hidden_, at.rows, at.row_stride,
                         binding_.parameters[1], hidden_, 0.0F, hidden_gradient, hidden_);
            }
        }
    }

    /// Adds to the member's sums; spoils the gradients of the first positions.
    void add_parameter_gradients(float* rows, const KernelSlice& slice) {
        const std::int64_t count = slice.samples * positions_;
        float* input = partial(slice.shared, slice.member);
        float* hidden = input + 4 * hidden_ * features_;
        float* bias = hidden + 4 * hidden_ * hidden_;
        char& used = used_[static_cast<std::size_t>(slice.member)];
        if (used == 0) {
            std::fill_n(input, partial_floats(), 0.0F);
        }
        used = 1;
        product_('T', 'N', 4 * hidden_, features_, count, rows, row_floats(), slice.inputs[0],
                 features_, 1.0F, input, features_);
        for (std::int64_t row = 0; row < count; ++row) {
            accumulate(bias, rows + row * row_floats(), 4 * hidden_);
        }
        // Every row pairs with the output of the row before; the first position of a sample has
        // none, but would meet the last one of the sample before.
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            std::fill_n(rows + n * positions_ * row_floats(), 4 * hidden_, 0.0F);
        }
        if (count > 1) {
            product_('T', 'N', 4 * hidden_, hidden_, count - 1, rows + row_floats(), row_floats(),
                     slice.output, hidden_, 1.0F, hidden, hidden_);
        }
    }

    /// Sums of one member: weight_input, weight_hidden, bias.
    [[nodiscard]] std::int64_t partial_floats() const {
        constexpr std::int64_t kAlignment = 16;
        return (4 * hidden_ * (features_ + hidden_ + 1) + kAlignment - 1) / kAlignment * kAlignment;
    }
    [[nodiscard]] float* partial(std::byte* shared, int member) const {
        return reinterpret_cast<float*>(shared) + partial_floats() * member;
    }

    std::int64_t positions_;
    std::int64_t features_;
    std::int64_t hidden_;
    bool training_;
    MatrixProduct product_;
    ThreadTeam& team_;
    std::vector<float> zeros_;  ///< cell state before the first position
    std::vector<char> used_;    ///< per member: has written its sums
};

class Lstm final : public SpecLayer<LstmSpec, LstmCpu> {
public:
    explicit Lstm(const LstmSpec& spec) : SpecLayer(spec) {
        if (spec.options.hidden < 1) {
            fail<ShapeError>({.where = "lstm", .what = "hidden must be at least 1"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "lstm"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return {only_input("lstm", inputs, 2)[0], spec_.options.hidden};
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const std::int64_t hidden = spec_.options.hidden;
        return {
            {"weight_input", Shape{4 * hidden, inputs[0][1]}, Initialisation::kUniform, true},
            {"weight_hidden", Shape{4 * hidden, hidden}, Initialisation::kUniform, true},
            {"bias", Shape{4 * hidden}, Initialisation::kForgetGate, false},
        };
    }
    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        const std::int64_t hidden = spec_.options.hidden;
        return 8.0 * static_cast<double>(inputs[0][0] * hidden * (inputs[0][1] + hidden));
    }
};

}  // namespace

std::shared_ptr<const Layer> make_lstm(const LstmOptions& options) {
    return std::make_shared<Lstm>(LstmSpec{options});
}

}  // namespace cohort
