#pragma once

#include <array>
#include <cstdint>
#include <span>

// The innermost loops of our own convolutions, compiled for every set of vector instructions. They
// read a tensor in which the channels of a pixel, or a part of them, lie side by side; the places
// of output pixels and of the kernel's taps in it are lists of offsets.
namespace cohort {

/// Consecutive floats under a tap: a range of channels, or several taps of one row at once.
struct ConvRun {
    std::int32_t offset = 0;  ///< floats from a pixel's place
    std::int32_t length = 0;
};

/// Most output channels of a panel: those that are computed together.
constexpr int kMostPanelChannels = 32;

/// Output pixels x one panel of channels: for each pixel the sum over all runs of source x weight.
struct ConvPanel {
    const float* source = nullptr;
    std::span<const std::int32_t> pixels;   ///< place in the source of each output pixel
    std::span<const std::int32_t> targets;  ///< place in the output, likewise
    std::span<const ConvRun> runs;
    const float* weights = nullptr;  ///< [sum of the runs' lengths, panel channels]
    const float* bias = nullptr;     ///< [panel channels]
    float* output = nullptr;
    /// Of each channel, floats from a pixel's place. `channels` of them are written.
    std::array<std::int32_t, kMostPanelChannels> channel_offsets{};
    int channels = 0;
};

/// Some channels of a tensor, pixel by pixel: [pixels, panel channels], zeros where there are
/// fewer.
struct ConvPanelCopy {
    const float* tensor = nullptr;
    std::span<const std::int32_t> pixels;  ///< place of each
    std::array<std::int32_t, kMostPanelChannels> channel_offsets{};
    int channels = 0;
    float* panel = nullptr;
    float* sums = nullptr;  ///< [panel channels], to which those over all pixels are added
};

/// Sums over pixels of source x gradient of the output, for one panel of output channels.
struct ConvGradientPanel {
    const float* source = nullptr;
    std::span<const std::int32_t> pixels;
    std::span<const ConvRun> runs;
    const float* output_gradient = nullptr;  ///< [pixels, panel channels]
    float* sums = nullptr;                   ///< [sum of the runs' lengths, panel channels]
    bool adds = false;                       ///< to the sums; false: assigns
};

/// The loops for the instructions that oneDNN is allowed to use here (DNNL_MAX_CPU_ISA too).
struct ConvLoops {
    int lanes = 0;  ///< floats of a vector; a panel has one or two of them
    /// By the number of vectors of a panel.
    std::array<void (*)(const ConvPanel&), 3> product{};
    std::array<void (*)(const ConvGradientPanel&), 3> gradient{};
    std::array<void (*)(const ConvPanelCopy&), 3> copy{};
    /// The same where each channel is a group by itself: a run's floats are channels of the panel,
    /// weights and sums are [runs, panel channels].
    void (*depthwise)(const ConvPanel&) = nullptr;
    void (*depthwise_gradient)(const ConvGradientPanel&) = nullptr;

    [[nodiscard]] int panel_channels() const { return 2 * lanes; }
};
[[nodiscard]] const ConvLoops& conv_loops();

}  // namespace cohort
