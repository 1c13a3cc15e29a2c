#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/cpu/conv/conv_geometry.hpp"
#include "layers/cpu/conv/conv_loops.hpp"

namespace cohort {

/// Channels of the target that are computed together.
struct ConvPanelPlace {
    std::int64_t group = 0;
    std::int64_t channel = 0;   ///< first one within the group
    std::int64_t weighted = 0;  ///< channels with weights; behind them those that fill a block
    int channels = 0;           ///< that are written
    int vectors = 0;            ///< 1 or 2
    std::int64_t column = 0;    ///< first one among the columns of all panels
};

/// How our loops want weights: panel by panel, for all panels' columns a row for every channel of
/// the source under every tap. Where each channel is a group by itself, panels go over groups.
class ConvPanels {
public:
    ConvPanels(const ConvProblem& problem, ConvDirection direction);

    /// Each channel is a group.
    [[nodiscard]] bool depthwise() const noexcept { return depthwise_; }
    [[nodiscard]] std::span<const ConvPanelPlace> places() const noexcept { return places_; }
    /// Floats of all panels in one row.
    [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
    /// Rows of a phase with that many taps.
    [[nodiscard]] std::int64_t rows(std::size_t taps) const noexcept {
        return static_cast<std::int64_t>(taps) * source_channels_;
    }
    /// Copies the canonical weights of one panel under these taps to panel order, zeros for
    /// channels without weights; or sums in panel order back.
    void pack(const ConvPanelPlace& place, std::span<const ConvTap> taps, const float* weights,
              float* to) const;
    void unpack(const ConvPanelPlace& place, std::span<const ConvTap> taps, const float* from,
                float* weights) const;
    /// First channel of the panel in the target.
    [[nodiscard]] std::int64_t first_channel(const ConvPanelPlace& place) const {
        return place.group * target_channels_ + place.channel;
    }

private:
    /// f(float in panel order, number of the weight) for all weights.
    template <class F>
    void for_weights(const ConvPanelPlace& place, std::span<const ConvTap> taps, F&& f) const;

    bool depthwise_ = false;
    std::int64_t source_channels_;  ///< of a group
    std::int64_t target_channels_;
    std::int64_t cells_;
    std::int64_t group_step_;   ///< in canonical weights
    std::int64_t source_step_;  ///< from a channel of the source to the next
    std::int64_t target_step_;
    int lanes_;
    std::vector<ConvPanelPlace> places_;
    std::int64_t columns_ = 0;
};

}  // namespace cohort
