// Mean softmax cross entropy over integer labels: loss = log sum exp(z - max) + max - z[label].
#include <cmath>
#include <vector>

#include "layers/kernels.hpp"
#include "tensor/cpu_team.hpp"

namespace cohort {
namespace {

class SoftmaxCrossEntropyCpu final : public LossKernel {
public:
    SoftmaxCrossEntropyCpu(const KernelContext& context, std::int64_t classes)
        : classes_(classes), sums_(static_cast<std::size_t>(cpu_team(context.device).size())) {}

    void begin() override { sums_.assign(sums_.size(), LossSums{}); }

    void run(const LossSlice& slice) override {
        LossSums& sums = sums_[static_cast<std::size_t>(slice.member)];
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            const float* logits = slice.logits + n * classes_;
            float* gradient = slice.gradient == nullptr ? nullptr : slice.gradient + n * classes_;
            add_sample(logits, slice.labels[n], slice.scale, gradient, sums);
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
    void add_sample(const float* logits, std::int32_t label, float scale, float* gradient,
                    LossSums& sums) const {
        std::int64_t best = 0;
        for (std::int64_t c = 1; c < classes_; ++c) {
            best = logits[c] > logits[best] ? c : best;
        }
        const float largest = logits[best];
        double total = 0;
        for (std::int64_t c = 0; c < classes_; ++c) {
            total += static_cast<double>(std::exp(logits[c] - largest));
        }
        sums.loss += std::log(total) + static_cast<double>(largest - logits[label]);
        sums.correct += best == label ? 1 : 0;
        if (gradient == nullptr) {
            return;
        }
        const auto inverse = static_cast<float>(1.0 / total);
        for (std::int64_t c = 0; c < classes_; ++c) {
            const float probability = std::exp(logits[c] - largest) * inverse;
            gradient[c] = (probability - (c == label ? 1.0F : 0.0F)) * scale;
        }
    }

    std::int64_t classes_;
    std::vector<LossSums> sums_;
};

}  // namespace

std::unique_ptr<LossKernel> make_cpu_cross_entropy(const KernelContext& context,
                                                   std::int64_t classes) {
    return std::make_unique<SoftmaxCrossEntropyCpu>(context, classes);
}

}  // namespace cohort
