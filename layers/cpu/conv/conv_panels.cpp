#include "layers/cpu/conv/conv_panels.hpp"

#include <algorithm>

#include "layers/cpu/dnnl_support.hpp"

// Products of lanes, vectors and taps are small.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

namespace cohort {

ConvPanels::ConvPanels(const ConvProblem& problem, ConvDirection direction)
    : lanes_(conv_loops().lanes) {
    const ConvOptions& o = problem.options;
    const bool gradient = direction == ConvDirection::kData;
    const std::int64_t inputs = problem.input.shape[0] / o.groups;
    const std::int64_t outputs = o.channels / o.groups;
    const TensorFormat& target = gradient ? problem.input : problem.output;
    cells_ = o.kernel.height * o.kernel.width;
    depthwise_ = o.groups > 1 && inputs == 1 && outputs == 1;
    source_channels_ = gradient ? outputs : inputs;
    target_channels_ = gradient ? inputs : outputs;
    group_step_ = outputs * inputs * cells_;
    source_step_ = gradient ? inputs * cells_ : cells_;
    target_step_ = gradient ? cells_ : inputs * cells_;
    std::int64_t groups = o.groups;
    if (depthwise_) {
        target_channels_ = o.groups;
        target_step_ = cells_;
        groups = 1;
    }
    const std::int64_t widest = 2 * lanes_;
    for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t stored = group + 1 < groups
                                        ? target_channels_
                                        : stored_channels(target) - group * target_channels_;
        for (std::int64_t channel = 0; channel < stored; channel += widest) {
            const auto channels = static_cast<int>(std::min(widest, stored - channel));
            const int vectors = channels > lanes_ || depthwise_ ? 2 : 1;
            places_.push_back(
                {.group = group,
                 .channel = channel,
                 .weighted = std::clamp<std::int64_t>(target_channels_ - channel, 0, channels),
                 .channels = channels,
                 .vectors = vectors,
                 .column = columns_});
            columns_ += vectors * lanes_;
        }
    }
}

template <class F>
void ConvPanels::for_weights(const ConvPanelPlace& place, std::span<const ConvTap> taps,
                             F&& f) const {
    const std::int64_t width = place.vectors * lanes_;
    const std::int64_t first = place.group * group_step_ + place.channel * target_step_;
    for (std::int64_t k = 0; k < source_channels_; ++k) {
        for (std::size_t t = 0; t < taps.size(); ++t) {
            const std::int64_t row = static_cast<std::int64_t>(t) * source_channels_ + k;
            const std::int64_t from = first + k * source_step_ + taps[t].cell;
            for (std::int64_t c = 0; c < place.weighted; ++c) {
                f(row * width + c, from + c * target_step_);
            }
        }
    }
}

void ConvPanels::pack(const ConvPanelPlace& place, std::span<const ConvTap> taps,
                      const float* weights, float* to) const {
    const std::int64_t width = place.vectors * lanes_;
    if (place.weighted < width) {
        std::fill_n(to, rows(taps.size()) * width, 0.0F);
    }
    for_weights(place, taps,
                [&](std::int64_t panel, std::int64_t weight) { to[panel] = weights[weight]; });
}

void ConvPanels::unpack(const ConvPanelPlace& place, std::span<const ConvTap> taps,
                        const float* from, float* weights) const {
    for_weights(place, taps,
                [&](std::int64_t panel, std::int64_t weight) { weights[weight] = from[panel]; });
}

}  // namespace cohort
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
