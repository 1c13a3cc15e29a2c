// The losses on the CPU. Softmax cross entropy over integer labels: log sum exp(z - max) + max -
// z[label]. Squared error: per sample the mean over its outputs of (output - target)^2.
#include <cmath>
#include <vector>

#include "layers/kernels.hpp"
#include "tensor/cpu_team.hpp"

namespace cohort {
namespace {

class LossCpu final : public LossKernel {
public:
    LossCpu(LossKind kind, const KernelContext& context, std::int64_t outputs)
        : kind_(kind),
          outputs_(outputs),
          sums_(static_cast<std::size_t>(cpu_team(context.device).size())) {}

    void begin() override { sums_.assign(sums_.size(), LossSums{}); }

    void run(const LossSlice& slice) override {
        LossSums& sums = sums_[static_cast<std::size_t>(slice.member)];
        if (kind_ == LossKind::kMeanSquaredError) {
            add_squared_errors(slice, sums);
            return;
        }
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            const float* logits = slice.logits + n * outputs_;
            float* gradient = slice.gradient == nullptr ? nullptr : slice.gradient + n * outputs_;
            add_cross_entropy(logits, slice.labels[n], slice.scale, gradient, sums);
        }
    }

    [[nodiscard]] LossSums finish() override {
        LossSums total;
        for (const LossSums& sums : sums_) {
            total.loss += sums.loss;
            total.correct += sums.correct;
        }
        return total;
    }

private:
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

    /// Of one sample.
    void add_cross_entropy(const float* logits, std::int32_t label, float scale, float* gradient,
                           LossSums& sums) const {
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
        sums.correct += best == label ? 1 : 0;
        if (gradient == nullptr) {
            return;
        }
        const auto inverse = static_cast<float>(1.0 / total);
        for (std::int64_t c = 0; c < outputs_; ++c) {
            const float probability = std::exp(logits[c] - largest) * inverse;
            gradient[c] = (probability - (c == label ? 1.0F : 0.0F)) * scale;
        }
    }

    LossKind kind_;
    std::int64_t outputs_;
    std::vector<LossSums> sums_;  ///< per member
};

}  // namespace

std::unique_ptr<LossKernel> make_loss(LossKind kind, const KernelContext& context,
                                      std::int64_t outputs) {
    if (context.device.kind() == DeviceKind::kCuda) {
        return make_cuda_loss(kind, context, outputs);
    }
    return std::make_unique<LossCpu>(kind, context, outputs);
}

}  // namespace cohort
