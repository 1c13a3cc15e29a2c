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
    std::string by;    ///< what computes a convolution: "jit:avx2, own:product"; else empty
};

/// The slow layers, most lost first.
/// @param profile  of a network on a CPU
/// @param samples  that thread 0, whose times the profile has, has computed: samples_of_thread()
/// @param product_flops  floating-point operations per second of a core's product of matrices
[[nodiscard]] std::vector<SlowLayer> slow_layers(const std::vector<LayerProfile>& profile,
                                                 double samples, double product_flops);

/// A sentence that names the slow layers and what they cost; empty where the layers take less than
/// half as long again as without them.
[[nodiscard]] std::string slow_layers_sentence(const std::vector<SlowLayer>& slow,
                                               double product_flops);

/// Samples of a batch that the first of `threads` threads computes.
[[nodiscard]] std::int64_t samples_of_thread(std::int64_t batch, int threads);

/// "jit:avx2, own:product": what computes a layer, forward and then backward.
[[nodiscard]] std::string implementations_of(const LayerProfile& layer);

/// Times the layers of a network in its first steps, without the first one, in which algorithms are
/// chosen; then it is done. Of every layer the fastest step counts: other work on the machine makes
/// layers slower, by its cache and memory traffic too, and never faster. Nobody else profiles the
/// network meanwhile.
class SlowLayerWatch {
public:
    static constexpr int kSteps = 3;  ///< that are timed

    /// @param replica  on a CPU; outlives this  @param threads  that share its batches
    /// @param measure_product  measures the floating-point operations per second of a core's
    ///     product of matrices; called once, after the first step, when other ranks of the host
    ///     are at work too
    SlowLayerWatch(Replica& replica, int threads, double (*measure_product)())
        : replica_(replica), threads_(threads), measure_product_(measure_product) {}

    /// A training step begins.
    void begin();
    /// It has ended. @param samples  0: it was given up
    /// @return the sentence on slow layers, after the last step to be timed, if there are any
    [[nodiscard]] std::string end(std::int64_t samples);
    /// As measured after the first step; 0 before.
    [[nodiscard]] double product_flops() const noexcept { return product_flops_; }

private:
    [[nodiscard]] bool done() const noexcept { return steps_ > kSteps; }

    Replica& replica_;
    int threads_;
    double (*measure_product_)();
    double product_flops_ = 0;
    int steps_ = 0;
    std::vector<LayerProfile> fastest_;  ///< seconds of a sample
};

}  // namespace cohort
