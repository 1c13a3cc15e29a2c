// The losses on the CPU. Softmax cross entropy over integer labels: log sum exp(z - max) + max -
// z[label]; a sample with several labels has the mean over them. Squared error: per sample the mean
// over its outputs of (output - target)^2.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/softmax_loops.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LossCpu final : public LossKernel {
public:
    LossCpu(LossKind kind, const KernelContext& context, const LossExtents& extents)
        : kind_(kind),
          rows_(extents.rows),
          outputs_(extents.outputs),
          type_(context.inputs.empty() ? ElementType::kF32 : context.inputs.front().type),
          sums_(static_cast<std::size_t>(cpu_team(context.device).size())) {}

    void begin() override { sums_.assign(sums_.size(), LossSums{}); }

    void run(const LossSlice& slice) override {
        if (type_ == ElementType::kF32) {
            add(slice);
            return;
        }
        // Sample by sample through single precision.
        const std::int64_t count = rows_ * outputs_;
        std::vector<float> logits(static_cast<std::size_t>(count));
        std::vector<float> gradient(slice.gradient == nullptr ? 0 : logits.size());
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            LossSlice sample = slice;
            convert_elements(type_, as<std::uint16_t>(slice.logits) + n * count, ElementType::kF32,
                             logits.data(), count);
            sample.samples = 1;
            sample.logits = logits.data();
            if (kind_ == LossKind::kMeanSquaredError) {
                sample.targets += n * outputs_;
            } else {
                sample.labels += n * rows_;
            }
            sample.gradient = slice.gradient == nullptr ? nullptr : gradient.data();
            add(sample);
            if (slice.gradient != nullptr) {
                convert_elements(ElementType::kF32, gradient.data(), type_,
                                 as<std::uint16_t>(slice.gradient) + n * count, count);
            }
        }
    }

    [[nodiscard]] LossSums finish() override {
        LossSums total;
        for (const LossSums& sums : sums_) {
            total.loss += sums.loss;
            total.correct += sums.correct;
        }
        const auto rows = static_cast<double>(rows_);
        return {.loss = total.loss / rows, .correct = total.correct / rows};
    }

private:
    /// A slice in single precision.
    void add(const LossSlice& slice) {
        LossSums& sums = sums_[static_cast<std::size_t>(slice.member)];
        if (kind_ == LossKind::kMeanSquaredError) {
            add_squared_errors(slice, sums);
            return;
        }
        const float scale = slice.scale / static_cast<float>(rows_);
        for (std::int64_t row = 0; row < slice.samples * rows_; ++row) {
            const float* logits = slice.logits + row * outputs_;
            float* gradient = slice.gradient == nullptr ? nullptr : slice.gradient + row * outputs_;
            add_cross_entropy(logits, slice.labels[row], scale, gradient, sums);
        }
    }

    void add_squared_errors(const LossSlice& slice, LossSums& sums) const {
        const auto outputs = static_cast<double>(outputs_);
        const auto slope = static_cast<float>(2.0 / outputs) * slice.scale;
        double sum = 0;
        for (std::int64_t i = 0; i < slice.samples * outputs_; ++i) {
            const float error = slice.logits[i] - slice.targets[i];
            sum += static_cast<double>(error) * static_cast<double>(error);
            if (slice.gradient != nullptr) {
                slice.gradient[i] = slope * error;
            }
        }
        sums.loss += sum / outputs;
    }

    /// Of one label.
    void add_cross_entropy(const float* logits, std::int32_t label, float scale, float* gradient,
                           LossSums& sums) const {
        if (rows_ > 1 && outputs_ >= kMany) {  // one label per sample: the same bits as ever
            add_many_classes(logits, label, scale, gradient, sums);
            return;
        }
        std::int64_t best = 0;
        for (std::int64_t c = 1; c < outputs_; ++c) {
            best = logits[c] > logits[best] ? c : best;
        }
        const float largest = logits[best];
        double total = 0;
        for (std::int64_t c = 0; c < outputs_; ++c) {
            total += static_cast<double>(std::exp(logits[c] - largest));
        }
        sums.loss += std::log(total) + static_cast<double>(largest - logits[label]);
        sums.correct += best == label ? 1.0 : 0.0;
        if (gradient == nullptr) {
            return;
        }
        const auto inverse = static_cast<float>(1.0 / total);
        for (std::int64_t c = 0; c < outputs_; ++c) {
            const float probability = std::exp(logits[c] - largest) * inverse;
            gradient[c] = (probability - (c == label ? 1.0F : 0.0F)) * scale;
        }
    }

    /// The same in vectors, with sums in single precision over parts of the classes.
    void add_many_classes(const float* logits, std::int32_t label, float scale, float* gradient,
                          LossSums& sums) const {
        const float largest = largest_of(logits, outputs_);
        double total = 0;
        for (std::int64_t first = 0; first < outputs_; first += kMany) {
            total += static_cast<double>(
                exponential_sum(logits + first, std::min(kMany, outputs_ - first), largest));
        }
        sums.loss += std::log(total) + static_cast<double>(largest - logits[label]);
        sums.correct += std::find(logits, logits + outputs_, largest) == logits + label ? 1.0 : 0.0;
        if (gradient != nullptr) {
            scaled_exponentials(logits, outputs_, largest, static_cast<float>(1.0 / total) * scale,
                                gradient);
            gradient[label] -= scale;
        }
    }

    static constexpr std::int64_t kMany = 1024;

    LossKind kind_;
    std::int64_t rows_;           ///< labels of a sample
    std::int64_t outputs_;        ///< per row
    ElementType type_;            ///< of logits and their gradient
    std::vector<LossSums> sums_;  ///< per member
};

}  // namespace

std::unique_ptr<LossKernel> make_loss(LossKind kind, const KernelContext& context,
                                      const Shape& output) {
    const bool sequence = kind == LossKind::kSoftmaxCrossEntropy && output.rank() == 2;
    const LossExtents extents{.rows = sequence ? output[0] : 1,
                              .outputs = sequence ? output[1] : output.elements()};
    if (context.device.kind() == DeviceKind::kCuda) {
        return make_cuda_loss(kind, context, extents);
    }
    return std::make_unique<LossCpu>(kind, context, extents);
}

}  // namespace cohort
