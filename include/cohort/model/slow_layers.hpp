#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/model/replica.hpp"

namespace cohort {

/// Share of a core's product of matrices below which a layer counts as slow: compiled kernels of
/// this program and of oneDNN reach it with nearly every shape of the zoo's layers, kernels without
/// vector instructions reach a hundredth (docs/processors.md).
inline constexpr double kProductFloor = 0.25;

/// One direction of a layer that is slower than the floor.
struct SlowLayer {
    std::string layer;
    bool backward = false;
    double share = 0;  ///< of a core's product of matrices
    double lost = 0;   ///< of the time of all layers: what it takes beyond its time at the floor
    std::string by;    ///< what computes the layer: "jit:avx2, own:product"
};

/// The slow layers, most lost first.
/// @param profile  of a network on a CPU
/// @param samples  that thread 0, whose times the profile has, has computed
/// @param product_flops  floating-point operations per second of a core's product of matrices
[[nodiscard]] std::vector<SlowLayer> slow_layers(const std::vector<LayerProfile>& profile,
                                                 double samples, double product_flops);

/// "jit:avx2, own:product": what computes a layer, forward and then backward.
[[nodiscard]] std::string implementations_of(const LayerProfile& layer);

/// A sentence that names the slow layers and what they cost; empty when together they cost less
/// than a tenth of the time of all layers.
[[nodiscard]] std::string slow_layers_sentence(const std::vector<SlowLayer>& slow,
                                               double product_flops);

/// Times the layers of a network in its first steps, without the first one, in which algorithms are
/// chosen; then it is done.
class SlowLayerWatch {
public:
    static constexpr int kSteps = 3;  ///< that are timed

    /// @param replica  on a CPU; outlives this  @param threads  that share its batches
    SlowLayerWatch(Replica& replica, int threads, double product_flops)
        : replica_(replica), threads_(threads), product_flops_(product_flops) {}

    /// A training step of `samples` has ended. @return the sentence on slow layers, when the last
    /// step to be timed has ended and there are any
    [[nodiscard]] std::string stepped(std::int64_t samples);

private:
    Replica& replica_;
    int threads_;
    double product_flops_;
    int steps_ = 0;
    std::int64_t samples_ = 0;
};

}  // namespace cohort
