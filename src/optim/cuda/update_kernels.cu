// The update rules in one launch over a piece, bound by bandwidth: four floats (16 bytes) of every
// buffer per thread and turn, where the piece lies so; one float otherwise.
#include "optim/cuda/update_kernels.hpp"

#include "optim/rules.hpp"
#include "optim/update_units.hpp"
#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

using kernels::AdamFactors;
using kernels::Decay;
using kernels::DeltaFactors;
using kernels::SgdFactors;

struct alignas(16) Four {
    float at[4];
};

/// One element; `slots` are its floats of the optimizer's state.
template <SgdFactors::Rule kRule>
struct SgdUpdate {
    static constexpr int kSlots = 1;
    SgdFactors factors;
    Decay decay;
    float* slots[kSlots];

    __device__ void operator()(bool decays, float& theta, float (&slot)[kSlots], float g) const {
        using kernels::sgd_element;
        if (!decays || decay == Decay::kNone) {
            sgd_element<kRule, Decay::kNone>(factors, theta, slot[0], g);
        } else if (decay == Decay::kCoupled) {
            sgd_element<kRule, Decay::kCoupled>(factors, theta, slot[0], g);
        } else {
            sgd_element<kRule, Decay::kDecoupled>(factors, theta, slot[0], g);
        }
    }
};

/// The plain rule leaves the partial sum alone: a slot less to read and write.
template <AdamFactors::Rule kRule>
struct AdamUpdate {
    static constexpr int kSlots = kRule == AdamFactors::Rule::kWhole ? 2 : 3;
    AdamFactors factors;
    Decay decay;
    float* slots[kSlots];

    template <Decay kDecay>
    __device__ void run(float& theta, float (&slot)[kSlots], float g) const {
        float untouched = 0;
        float* partial = &untouched;
        if constexpr (kSlots == 3) {
            partial = &slot[2];
        }
        kernels::adamw_element<kRule, kDecay>(factors, theta, slot[0], slot[1], *partial, g);
    }
    __device__ void operator()(bool decays, float& theta, float (&slot)[kSlots], float g) const {
        if (!decays || decay == Decay::kNone) {
            run<Decay::kNone>(theta, slot, g);
        } else if (decay == Decay::kCoupled) {
            run<Decay::kCoupled>(theta, slot, g);
        } else {
            run<Decay::kDecoupled>(theta, slot, g);
        }
    }
};

struct SgdDelta {
    static constexpr int kSlots = 1;
    DeltaFactors factors;
    float* slots[kSlots];
    __device__ void operator()(bool /*decays*/, float& theta, float (&slot)[1], float delta) const {
        kernels::sgd_delta_element(factors, theta, slot[0], delta);
    }
};

struct AddDelta {
    static constexpr int kSlots = 0;
    __device__ void operator()(bool /*decays*/, float& theta, float delta) const { theta += delta; }
};

template <class Update>
__device__ void update_one(const PieceView& piece, const Update& update, std::int64_t i) {
    const std::int64_t place = piece.first + i;
    const std::uint8_t unit = piece.units[place / FlatLayout::kAlignment];
    if (place % FlatLayout::kAlignment >= unit_used(unit)) {
        return;
    }
    float theta = piece.theta[i];
    if constexpr (Update::kSlots == 0) {
        update(unit_decays(unit), theta, piece.gradient[i]);
    } else {
        float slot[Update::kSlots];
        for (int s = 0; s < Update::kSlots; ++s) {
            slot[s] = update.slots[s][i];
        }
        update(unit_decays(unit), theta, slot, piece.gradient[i]);
        for (int s = 0; s < Update::kSlots; ++s) {
            update.slots[s][i] = slot[s];
        }
    }
    piece.theta[i] = theta;
}

/// Four floats from `i` on, which lie in one unit. Padding among them is written back as it was.
template <class Update>
__device__ void update_four(const PieceView& piece, const Update& update, std::int64_t i) {
    const std::int64_t place = piece.first + i;
    const std::uint8_t unit = piece.units[place / FlatLayout::kAlignment];
    const int used = unit_used(unit) - static_cast<int>(place % FlatLayout::kAlignment);
    if (used <= 0) {
        return;
    }
    Four theta = *reinterpret_cast<const Four*>(piece.theta + i);
    const Four g = *reinterpret_cast<const Four*>(piece.gradient + i);
    if constexpr (Update::kSlots == 0) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (j < used) {
                update(unit_decays(unit), theta.at[j], g.at[j]);
            }
        }
    } else {
        Four state[Update::kSlots];
#pragma unroll
        for (int s = 0; s < Update::kSlots; ++s) {
            state[s] = *reinterpret_cast<const Four*>(update.slots[s] + i);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float slot[Update::kSlots];
            for (int s = 0; s < Update::kSlots; ++s) {
                slot[s] = state[s].at[j];
            }
            if (j < used) {
                update(unit_decays(unit), theta.at[j], slot, g.at[j]);
            }
            for (int s = 0; s < Update::kSlots; ++s) {
                state[s].at[j] = slot[s];
            }
        }
#pragma unroll
        for (int s = 0; s < Update::kSlots; ++s) {
            *reinterpret_cast<Four*>(update.slots[s] + i) = state[s];
        }
    }
    *reinterpret_cast<Four*>(piece.theta + i) = theta;
}

/// @param fours  how many groups of four the piece begins with; the rest goes one by one
template <class Update>
__global__ void update_kernel(PieceView piece, Update update, std::int64_t fours) {
    const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t k = thread; k < fours; k += stride) {
        update_four(piece, update, 4 * k);
    }
    for (std::int64_t i = 4 * fours + thread; i < piece.count; i += stride) {
        update_one(piece, update, i);
    }
}

bool is_aligned(const float* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % alignof(Four) == 0;
}

template <class Update>
void launch(cudaStream_t stream, const PieceView& piece, const Update& update, const char* name) {
    constexpr int kThreads = 256;
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
    if (piece.count == 0) {
        return;
    }
    bool wide = piece.first % 4 == 0 && is_aligned(piece.theta) && is_aligned(piece.gradient);
    if constexpr (Update::kSlots > 0) {
        for (const float* slot : update.slots) {
            wide = wide && is_aligned(slot);
        }
    }
    const std::int64_t fours = wide ? piece.count / 4 : 0;
    const std::int64_t turns = wide ? fours + 3 : piece.count;
    const std::int64_t blocks = (turns + kThreads - 1) / kThreads;
    const auto grid = static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
    update_kernel<<<grid, kThreads, 0, stream>>>(piece, update, fours);
    check_launch(name);
}

}  // namespace

void launch_sgd(cudaStream_t stream, const PieceView& piece, const SgdFactors& factors, Decay decay,
                float* u) {
    using Rule = SgdFactors::Rule;
    switch (factors.rule) {
        case Rule::kUnit:
            launch(stream, piece, SgdUpdate<Rule::kUnit>{factors, decay, {u}}, "sgd");
            return;
        case Rule::kUnitNesterov:
            launch(stream, piece, SgdUpdate<Rule::kUnitNesterov>{factors, decay, {u}}, "sgd");
            return;
        case Rule::kFractional:
            launch(stream, piece, SgdUpdate<Rule::kFractional>{factors, decay, {u}}, "sgd");
            return;
    }
}

void launch_adamw(cudaStream_t stream, const PieceView& piece, const AdamFactors& factors,
                  Decay decay, float* m, float* v, float* partial) {
    using Rule = AdamFactors::Rule;
    switch (factors.rule) {
        case Rule::kWhole:
            launch(stream, piece, AdamUpdate<Rule::kWhole>{factors, decay, {m, v}}, "adamw");
            return;
        case Rule::kAccumulate:
            launch(stream, piece, AdamUpdate<Rule::kAccumulate>{factors, decay, {m, v, partial}},
                   "adamw");
            return;
        case Rule::kFirst:
            launch(stream, piece, AdamUpdate<Rule::kFirst>{factors, decay, {m, v, partial}},
                   "adamw");
            return;
        case Rule::kComplete:
            launch(stream, piece, AdamUpdate<Rule::kComplete>{factors, decay, {m, v, partial}},
                   "adamw");
            return;
    }
}

void launch_sgd_delta(cudaStream_t stream, const PieceView& piece, const DeltaFactors& factors,
                      float* u) {
    launch(stream, piece, SgdDelta{factors, {u}}, "sgd delta");
}

void launch_add_delta(cudaStream_t stream, const PieceView& piece) {
    launch(stream, piece, AddDelta{}, "delta");
}

}  // namespace cohort::cuda
