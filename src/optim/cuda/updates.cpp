// The update rules on a GPU: the table of the range's units, and one launch per piece.
#include <algorithm>

#include "optim/cuda/update_kernels.hpp"
#include "optim/cuda_optim.hpp"
#include "optim/update_units.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

class CudaUpdates final : public Updates {
public:
    CudaUpdates(const FlatLayout& layout, std::int64_t begin, std::int64_t end, Device& device,
                Stream& stream)
        : device_(device),
          stream_(static_cast<cudaStream_t>(cuda::native_stream(stream))),
          first_(begin % FlatLayout::kAlignment) {
        const std::vector<std::uint8_t> units = update_units(layout, begin, end);
        units_ = device.allocate(std::max<std::size_t>(units.size(), 64));
        stream.copy(units_.data(), units.data(), units.size());
        stream.synchronize();  // the table on the host goes
    }

    void sgd(const kernels::SgdFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
             float* u) override {
        cuda::launch_sgd(stream_, view(piece), factors, decay, u + piece.offset);
    }
    void adamw(const kernels::AdamFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
               float* m, float* v, float* partial) override {
        cuda::launch_adamw(stream_, view(piece), factors, decay, m + piece.offset, v + piece.offset,
                           partial + piece.offset);
    }
    void sgd_delta(const kernels::DeltaFactors& factors, const UpdatePiece& piece,
                   float* u) override {
        cuda::launch_sgd_delta(stream_, view(piece), factors, u + piece.offset);
    }
    void add_delta(const UpdatePiece& piece) override {
        cuda::launch_add_delta(stream_, view(piece));
    }
    void share(std::int64_t size,
               const std::function<void(std::int64_t, std::int64_t)>& apply) override {
        apply(0, size);
    }

private:
    /// Any thread may bring a piece: it must use this GPU.
    [[nodiscard]] cuda::PieceView view(const UpdatePiece& piece) const {
        cuda::use(device_);
        return {.units = static_cast<const std::uint8_t*>(units_.data()),
                .first = first_ + piece.offset,
                .count = piece.count,
                .theta = piece.theta,
                .gradient = piece.gradient};
    }

    Device& device_;
    cudaStream_t stream_;
    std::int64_t first_;  ///< of the range, in the first unit's floats
    Buffer units_;
};

}  // namespace

std::unique_ptr<Updates> make_cuda_updates(const FlatLayout& layout, std::int64_t begin,
                                           std::int64_t end, Device& device, Stream& stream) {
    return std::make_unique<CudaUpdates>(layout, begin, end, device, stream);
}

}  // namespace cohort
