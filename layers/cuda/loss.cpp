// The two losses on a GPU. Logits may be of any type, the rest is single and double precision.
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/cuda/kernels/loss_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LossCuda final : public LossKernel {
public:
    LossCuda(LossKind kind, const KernelContext& context, const LossExtents& extents)
        : kind_(kind),
          extents_(extents),
          type_(context.inputs.empty() ? ElementType::kF32 : context.inputs[0].type),
          stream_(context.stream),
          support_(cuda::support_of(context)),
          sums_(context.device.allocate((cuda::kMostLossSums + 1) * sizeof(LossSums) +
                                        sizeof(unsigned))),
          result_(context.device.allocate_host(sizeof(LossSums))) {
        stream_.fill_zero(arrivals(), sizeof(unsigned));
    }

    void begin() override { adds_ = false; }

    void run(const LossSlice& slice) override {
        auto* total = static_cast<LossSums*>(sums_.data());
        LossSlice rows = slice;  // the kernels see a sample per label
        rows.samples *= extents_.rows;
        rows.scale /= static_cast<float>(extents_.rows);
        const cuda::LossWork work{.slice = rows,
                                  .outputs = extents_.outputs,
                                  .type = type_,
                                  .step = support_.step_values(),
                                  .partial = total + 1,
                                  .total = total,
                                  .adds = std::exchange(adds_, true),
                                  .arrivals = arrivals()};
        if (kind_ == LossKind::kMeanSquaredError) {
            check_invariant(slice.targets != nullptr, "squared error needs targets");
            cuda::squared_error(support_.stream(), work);
        } else {
            check_invariant(slice.labels != nullptr, "cross entropy needs labels");
            cuda::cross_entropy(support_.stream(), work);
        }
    }

    [[nodiscard]] LossSums finish() override {
        stream_.copy(result_.data(), sums_.data(), sizeof(LossSums));
        stream_.synchronize();
        const auto& sums = *static_cast<const LossSums*>(result_.data());
        const auto rows = static_cast<double>(extents_.rows);
        return {.loss = sums.loss / rows, .correct = sums.correct / rows};
    }

private:
    [[nodiscard]] unsigned* arrivals() const {
        return reinterpret_cast<unsigned*>(static_cast<LossSums*>(sums_.data()) +
                                           cuda::kMostLossSums + 1);
    }

    LossKind kind_;
    LossExtents extents_;
    ElementType type_;
    Stream& stream_;
    cuda::Support& support_;
    bool adds_ = false;  ///< the next slice, to the sums of the step's earlier ones
    Buffer sums_;        ///< the total, the blocks' sums, a counter of blocks
    Buffer result_;      ///< pinned
};

}  // namespace

std::unique_ptr<LossKernel> make_cuda_loss(LossKind kind, const KernelContext& context,
                                           const LossExtents& extents) {
    return std::make_unique<LossCuda>(kind, context, extents);
}

}  // namespace cohort
