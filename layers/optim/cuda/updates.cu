// The update rules on a GPU: a table of the range's units, and one launch per piece, bound by
// bandwidth: four floats (16 bytes) of every buffer per thread and turn, where the piece lies so;
// one float otherwise.
#include <algorithm>

#include "core/system/simd.hpp"
#include "core/tensor/cuda/element_map.cuh"
#include "layers/optim/rules.hpp"
#include "layers/optim/update_units.hpp"
#include "layers/optim/updates.hpp"

namespace cohort {
namespace cuda {
namespace {

using kernels::AdamFactors;
using kernels::Decay;
using kernels::DeltaFactors;
using kernels::SgdFactors;
using Four = Pack<float>;

/// A piece of an update as kernels see it.
struct PieceView {
    const std::uint8_t* units;  ///< see update_units()
    std::int64_t first;         ///< the piece's first float, counted in the units' floats
    UpdatePiece piece;
};

template <class F>
__device__ void with_decay(Decay decay, F&& f) {
    switch (decay) {
        case Decay::kNone: f(std::integral_constant<Decay, Decay::kNone>{}); return;
        case Decay::kCoupled: f(std::integral_constant<Decay, Decay::kCoupled>{}); return;
        case Decay::kDecoupled: f(std::integral_constant<Decay, Decay::kDecoupled>{}); return;
    }
}

// Updates of one element. `slots` are the optimizer's state from the piece's first float on, of
// which the first kSlots are read and written; `state` are the element's.
template <SgdFactors::Rule kRule>
struct SgdUpdate {
    static constexpr int kSlots = 1;
    SgdFactors factors;
    Decay decay;
    float* slots[1];

    __device__ void operator()(bool decays, float& theta, float (&state)[1], float g) const {
        with_decay(decays ? decay : Decay::kNone, [&](auto kind) {
            kernels::sgd_element<kRule, decltype(kind)::value>(factors, theta, state[0], g);
        });
    }
};

/// The plain rule leaves the partial sum alone: a slot less to read and write.
template <AdamFactors::Rule kRule>
struct AdamUpdate {
    static constexpr int kSlots = kRule == AdamFactors::Rule::kWhole ? 2 : 3;
    AdamFactors factors;
    Decay decay;
    float* slots[3];

    __device__ void operator()(bool decays, float& theta, float (&state)[3], float g) const {
        with_decay(decays ? decay : Decay::kNone, [&](auto kind) {
            kernels::adamw_element<kRule, decltype(kind)::value>(factors, theta, state[0], state[1],
                                                                 state[2], g);
        });
    }
};

struct SgdDelta {
    static constexpr int kSlots = 1;
    DeltaFactors factors;
    float* slots[1];
    __device__ void operator()(bool /*decays*/, float& theta, float (&state)[1],
                               float delta) const {
        kernels::sgd_delta_element(factors, theta, state[0], delta);
    }
};

struct AddDelta {
    static constexpr int kSlots = 0;
    float* slots[1];
    __device__ void operator()(bool /*decays*/, float& theta, float (&/*state*/)[1],
                               float delta) const {
        theta += delta;
    }
};

template <class Update>
constexpr int kStates = static_cast<int>(sizeof(Update::slots) / sizeof(float*));

template <class Update>
__device__ void update_one(const PieceView& view, const Update& update, std::int64_t i) {
    const std::int64_t place = view.first + i;
    const std::uint8_t unit = view.units[place / FlatLayout::kAlignment];
    if (place % FlatLayout::kAlignment >= unit_used(unit)) {
        return;
    }
    float theta = view.piece.theta[i];
    float state[kStates<Update>];
    for (int s = 0; s < Update::kSlots; ++s) {
        state[s] = update.slots[s][i];
    }
    update(unit_decays(unit), theta, state, view.piece.gradient[i]);
    for (int s = 0; s < Update::kSlots; ++s) {
        update.slots[s][i] = state[s];
    }
    view.piece.theta[i] = theta;
}

/// Four floats from `i` on, which lie in one unit. Padding among them is written back as it was.
template <class Update>
__device__ void update_four(const PieceView& view, const Update& update, std::int64_t i) {
    const std::int64_t place = view.first + i;
    const std::uint8_t unit = view.units[place / FlatLayout::kAlignment];
    const int used = unit_used(unit) - static_cast<int>(place % FlatLayout::kAlignment);
    if (used <= 0) {
        return;
    }
    Four theta = *reinterpret_cast<const Four*>(view.piece.theta + i);
    const Four g = *reinterpret_cast<const Four*>(view.piece.gradient + i);
    Four states[kStates<Update>];
#pragma unroll
    for (int s = 0; s < Update::kSlots; ++s) {
        states[s] = *reinterpret_cast<const Four*>(update.slots[s] + i);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float state[kStates<Update>];
        for (int s = 0; s < Update::kSlots; ++s) {
            state[s] = states[s].at[j];
        }
        if (j < used) {
            update(unit_decays(unit), theta.at[j], state, g.at[j]);
        }
        for (int s = 0; s < Update::kSlots; ++s) {
            states[s].at[j] = state[s];
        }
    }
#pragma unroll
    for (int s = 0; s < Update::kSlots; ++s) {
        *reinterpret_cast<Four*>(update.slots[s] + i) = states[s];
    }
    *reinterpret_cast<Four*>(view.piece.theta + i) = theta;
}

/// @param fours  how many groups of four the piece begins with; the rest goes one by one
template <class Update>
__global__ void update_kernel(PieceView view, Update update, std::int64_t fours) {
    for (std::int64_t k = thread_number(); k < fours; k += thread_count()) {
        update_four(view, update, 4 * k);
    }
    for (std::int64_t i = 4 * fours + thread_number(); i < view.piece.count; i += thread_count()) {
        update_one(view, update, i);
    }
}

class CudaUpdates final : public Updates {
public:
    CudaUpdates(const FlatLayout& layout, std::int64_t begin, std::int64_t end, Device& device,
                Stream& stream)
        : device_(device),
          stream_(static_cast<cudaStream_t>(native_stream(stream))),
          first_(begin % FlatLayout::kAlignment) {
        const std::vector<std::uint8_t> units = update_units(layout, begin, end);
        units_ = device.allocate(std::max<std::size_t>(units.size(), 64));
        stream.copy(units_.data(), units.data(), units.size());
        stream.synchronize();  // the table on the host goes
    }

    void sgd(const SgdFactors& factors, Decay decay, const UpdatePiece& piece, float* u) override {
        using Rule = SgdFactors::Rule;
        with_constant<Rule::kUnit, Rule::kUnitNesterov, Rule::kFractional>(
            factors.rule, [&](auto rule) {
                launch("sgd", piece,
                       SgdUpdate<decltype(rule)::value>{factors, decay, {u + piece.offset}});
            });
    }
    void adamw(const AdamFactors& factors, Decay decay, const UpdatePiece& piece, float* m,
               float* v, float* partial) override {
        using Rule = AdamFactors::Rule;
        const std::int64_t at = piece.offset;
        with_constant<Rule::kWhole, Rule::kAccumulate, Rule::kFirst, Rule::kComplete>(
            factors.rule, [&](auto rule) {
                launch("adamw", piece,
                       AdamUpdate<decltype(rule)::value>{
                           factors, decay, {m + at, v + at, partial + at}});
            });
    }
    void sgd_delta(const DeltaFactors& factors, const UpdatePiece& piece, float* u) override {
        launch("sgd delta", piece, SgdDelta{factors, {u + piece.offset}});
    }
    void add_delta(const UpdatePiece& piece) override { launch("delta", piece, AddDelta{}); }
    void share(std::int64_t size,
               const std::function<void(std::int64_t, std::int64_t)>& apply) override {
        apply(0, size);
    }

private:
    /// Any thread may bring a piece: it must use this GPU.
    template <class Update>
    void launch(const char* name, const UpdatePiece& piece, const Update& update) const {
        if (piece.count == 0) {
            return;
        }
        use(device_);
        const PieceView view{static_cast<const std::uint8_t*>(units_.data()), first_ + piece.offset,
                             piece};
        const bool wide = view.first % 4 == 0 && is_pack_aligned(piece.theta) &&
                          is_pack_aligned(piece.gradient) &&
                          std::all_of(std::begin(update.slots), std::end(update.slots),
                                      [](const float* slot) { return is_pack_aligned(slot); });
        const std::int64_t fours = wide ? piece.count / 4 : 0;
        const Launch size = launch_for(wide ? fours + 3 : piece.count, kMostBlocks);
        update_kernel<<<size.blocks, size.threads, 0, stream_>>>(view, update, fours);
        check_launch(name);
    }

    Device& device_;
    cudaStream_t stream_;
    std::int64_t first_;  ///< of the range, in the first unit's floats
    Buffer units_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Updates> make_cuda_updates(const FlatLayout& layout, std::int64_t begin,
                                           std::int64_t end, Device& device, Stream& stream) {
    return std::make_unique<cuda::CudaUpdates>(layout, begin, end, device, stream);
}

}  // namespace cohort
