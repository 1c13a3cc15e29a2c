#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cohort/core/interface.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/flat_layout.hpp"
#include "layers/optim/kernels.hpp"

namespace cohort {

/// A piece of an update: `count` floats from `offset` of the optimizer's range on; the pointers are
/// the piece's first floats.
struct UpdatePiece {
    std::int64_t offset = 0;
    std::int64_t count = 0;
    float* theta = nullptr;
    const float* gradient = nullptr;  ///< or the delta
};

/// Runs the rules over a piece on a device. The layout tells which floats belong to tensors, and
/// which of those have weight decay; padding is never touched. Slots are given by the first float
/// of the range. Pieces may come from several threads at once.
class Updates : public Interface {
public:
    /// @param decay  of floats that have it
    virtual void sgd(const kernels::SgdFactors& factors, kernels::Decay decay,
                     const UpdatePiece& piece, float* u) = 0;
    virtual void adamw(const kernels::AdamFactors& factors, kernels::Decay decay,
                       const UpdatePiece& piece, float* m, float* v, float* partial) = 0;
    virtual void sgd_delta(const kernels::DeltaFactors& factors, const UpdatePiece& piece,
                           float* u) = 0;
    virtual void add_delta(const UpdatePiece& piece) = 0;

    /// Calls apply(begin, end) for parts that cover [0, size): one, or one for each of the CPU's
    /// threads, on them.
    virtual void share(std::int64_t size,
                       const std::function<void(std::int64_t, std::int64_t)>& apply) = 0;
};

/// A stretch of a range whose floats all belong to tensors, with or without weight decay.
struct UpdateRun {
    std::int64_t begin;  ///< in floats, counted from the range's first
    std::int64_t end;
    bool decay;
};
/// The stretches of [begin, end) of the layout's buffer, neighbours joined.
[[nodiscard]] std::vector<UpdateRun> update_runs(const FlatLayout& layout, std::int64_t begin,
                                                 std::int64_t end);

[[nodiscard]] std::unique_ptr<Updates> make_cpu_updates(const FlatLayout& layout,
                                                        std::int64_t begin, std::int64_t end,
                                                        Device& device);

/// On a GPU: a piece is one launch. A build without CUDA refuses.
[[nodiscard]] std::unique_ptr<Updates> make_cuda_updates(const FlatLayout& layout,
                                                         std::int64_t begin, std::int64_t end,
                                                         Device& device, Stream& stream);

}  // namespace cohort
