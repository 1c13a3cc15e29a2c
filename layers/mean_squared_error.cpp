// Mean squared error: per sample the mean over its outputs of (output - target)^2.
#include <vector>

#include "layers/kernels.hpp"
#include "tensor/cpu_team.hpp"

namespace cohort {
namespace {

class MeanSquaredErrorCpu final : public LossKernel {
public:
    MeanSquaredErrorCpu(const KernelContext& context, std::int64_t outputs)
        : outputs_(outputs), sums_(static_cast<std::size_t>(cpu_team(context.device).size())) {}

    void begin() override { sums_.assign(sums_.size(), 0.0); }

    void run(const LossSlice& slice) override {
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
        sums_[static_cast<std::size_t>(slice.member)] += sum / outputs;
    }

    [[nodiscard]] LossSums finish() override {
        LossSums total;
        for (const double sum : sums_) {
            total.loss += sum;
        }
        return total;
    }

private:
    std::int64_t outputs_;
    std::vector<double> sums_;  ///< per member
};

}  // namespace

std::unique_ptr<LossKernel> make_cpu_squared_error(const KernelContext& context,
                                                   std::int64_t outputs) {
    return std::make_unique<MeanSquaredErrorCpu>(context, outputs);
}

}  // namespace cohort
