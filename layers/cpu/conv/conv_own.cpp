#include "layers/cpu/conv/conv_own.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "layers/cpu/conv/conv_loops.hpp"
#include "layers/cpu/conv/conv_panels.hpp"
#include "layers/cpu/conv/conv_source.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/format_cpu.hpp"

namespace cohort {
namespace {

constexpr const char* kProductName = "own:product";
constexpr const char* kDepthwiseName = "own:depthwise";

ConvSource source_of(const ConvGeometry& geometry, const TensorFormat& format,
                     const ConvOptions& options, const ConvPanels& panels) {
    return {geometry, format, options.groups,
            panels.depthwise() ? panels.columns() : format.shape[0]};
}

/// The runs of all groups under a phase; where channels are groups, one tap is a run.
std::vector<std::vector<ConvRun>> runs_of(const ConvSource& source, const ConvPhase& phase,
                                          std::int64_t groups, bool depthwise) {
    std::vector<std::vector<ConvRun>> all;
    if (depthwise) {
        ConvPhase one = phase;
        all.emplace_back();
        for (const ConvTap& tap : phase.taps) {
            one.taps = {tap};
            all.back().push_back(source.runs(one, 0).front());
        }
        return all;
    }
    for (std::int64_t group = 0; group < groups; ++group) {
        all.push_back(source.runs(phase, group));
    }
    return all;
}

/// Floats from a pixel's place to each channel of a panel.
std::array<std::int32_t, kMostPanelChannels> offsets_of(const TensorFormat& format,
                                                        std::int64_t first, int channels) {
    std::array<std::int32_t, kMostPanelChannels> offsets{};
    const std::int64_t pixels = extent_of(format).pixels;
    for (int c = 0; c < channels; ++c) {
        offsets[static_cast<std::size_t>(c)] =
            static_cast<std::int32_t>(element_offset(format, pixels, first + c, 0));
    }
    return offsets;
}

/// Runs f(0) to f(count - 1), on the team where that is worth it.
template <class F>
void share(ThreadTeam& team, std::size_t count, std::size_t bytes, const F& f) {
    if (team.size() == 1 || count == 1 || bytes < kWorthSharing) {
        for (std::size_t i = 0; i < count; ++i) {
            f(i);
        }
        return;
    }
    team.run([&](int member) {
        const auto [first, last] = part_of(static_cast<std::int64_t>(count), member, team.size());
        for (std::int64_t i = first; i < last; ++i) {
            f(static_cast<std::size_t>(i));
        }
    });
}

class OwnConv final : public ConvProduct {
public:
    OwnConv(const ConvProblem& problem, ConvDirection direction)
        : team_(*problem.team),
          target_(direction == ConvDirection::kData ? problem.input : problem.output),
          panels_(problem, direction),
          geometry_(conv_geometry(problem, direction)),
          source_(source_of(geometry_,
                            direction == ConvDirection::kData ? problem.output : problem.input,
                            problem.options, panels_)) {
        for (const ConvPhase& phase : geometry_.phases) {
            phases_.push_back(
                {.runs = runs_of(source_, phase, problem.options.groups, panels_.depthwise()),
                 .pixels = {},
                 .weights = floats_});
            floats_ += panels_.rows(phase.taps.size()) * panels_.columns();
        }
    }

    [[nodiscard]] std::string name() const override {
        return panels_.depthwise() ? kDepthwiseName : kProductName;
    }
    [[nodiscard]] bool prepare(std::int64_t samples) override {
        if (samples > prepared_) {
            for (std::size_t p = 0; p < phases_.size(); ++p) {
                phases_[p].pixels = source_.pixels(geometry_.phases[p], target_, samples);
            }
            prepared_ = samples;
        }
        return true;
    }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return padded(source_.scratch_bytes(samples));
    }
    [[nodiscard]] std::size_t weight_bytes() const override {
        return padded(static_cast<std::size_t>(floats_ + panels_.columns()) * sizeof(float));
    }

    void prepare_weights(const float* weights, const float* bias,
                         std::byte* prepared) const override {
        auto* to = reinterpret_cast<float*>(prepared);
        share(team_, panels_.places().size(), weight_bytes(), [&](std::size_t panel) {
            const ConvPanelPlace& place = panels_.places()[panel];
            for (std::size_t p = 0; p < phases_.size(); ++p) {
                panels_.pack(place, geometry_.phases[p].taps, weights, to + weights_at(p, place));
            }
            float* sums = to + floats_ + place.column;
            std::fill_n(sums, place.vectors * conv_loops().lanes, 0.0F);
            if (bias != nullptr) {
                std::copy_n(bias + panels_.first_channel(place), place.weighted, sums);
            }
        });
    }

    void run(std::int64_t samples, const std::byte* prepared, const float* from, float* to,
             std::byte* scratch) const override {
        const auto* weights = reinterpret_cast<const float*>(prepared);
        const ConvLoops& loops = conv_loops();
        for (const ConvChunk& chunk : source_.chunks(samples)) {
            ConvPanel panel{.source = source_.load(chunk, from, reinterpret_cast<float*>(scratch)),
                            .output = to + source_.target_start(chunk, target_)};
            for (const ConvPanelPlace& place : panels_.places()) {
                const auto group = static_cast<std::size_t>(place.group);
                const float* source = panel.source;
                ConvPanel part = panel;
                part.source = source + (panels_.depthwise() ? place.channel : 0);
                part.bias = weights + floats_ + place.column;
                part.channels = place.channels;
                part.channel_offsets =
                    offsets_of(target_, panels_.first_channel(place), place.channels);
                for (std::size_t p = 0; p < phases_.size(); ++p) {
                    const Phase& phase = phases_[p];
                    const std::size_t count = phase.pixels.count(chunk);
                    part.pixels = std::span(phase.pixels.places).first(count);
                    part.targets = std::span(phase.pixels.targets).first(count);
                    part.runs = phase.runs[group];
                    part.weights = weights + weights_at(p, place);
                    panels_.depthwise()
                        ? loops.depthwise(part)
                        : loops.product[static_cast<std::size_t>(place.vectors)](part);
                }
            }
        }
    }

private:
    struct Phase {
        std::vector<std::vector<ConvRun>> runs;  ///< of each group
        ConvSource::Pixels pixels;
        std::int64_t weights = 0;  ///< where its weights begin, in floats
    };
    /// Panel by panel within a phase.
    [[nodiscard]] std::int64_t weights_at(std::size_t phase, const ConvPanelPlace& place) const {
        return phases_[phase].weights +
               place.column * panels_.rows(geometry_.phases[phase].taps.size());
    }

    ThreadTeam& team_;
    TensorFormat target_;
    ConvPanels panels_;
    ConvGeometry geometry_;
    ConvSource source_;
    std::vector<Phase> phases_;
    std::int64_t floats_ = 0;  ///< of weights
    std::int64_t prepared_ = 0;
};

class OwnConvGradient final : public ConvWeightGradient {
public:
    explicit OwnConvGradient(const ConvProblem& problem)
        : team_(*problem.team),
          output_(problem.output),
          panels_(problem, ConvDirection::kForward),
          geometry_(conv_geometry(problem, ConvDirection::kForward)),
          source_(source_of(geometry_, problem.input, problem.options, panels_)),
          runs_(runs_of(source_, phase(), problem.options.groups, panels_.depthwise())),
          floats_(panels_.rows(phase().taps.size()) * panels_.columns()) {}

    [[nodiscard]] std::string name() const override {
        return panels_.depthwise() ? kDepthwiseName : kProductName;
    }
    [[nodiscard]] bool prepare(std::int64_t samples) override {
        if (samples > prepared_) {
            pixels_ = source_.pixels(phase(), output_, samples);
            prepared_ = samples;
        }
        return true;
    }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return padded(source_.scratch_bytes(samples)) +
               padded(static_cast<std::size_t>(source_.most_pixels(samples) *
                                               conv_loops().panel_channels()) *
                      sizeof(float));
    }
    [[nodiscard]] std::size_t sum_bytes() const override {
        return padded(static_cast<std::size_t>(floats_ + panels_.columns()) * sizeof(float));
    }

    void run(std::int64_t samples, const float* source, const float* output_gradient, bool adds,
             std::byte* sums, std::byte* scratch) const override {
        auto* total = reinterpret_cast<float*>(sums);
        auto* gradient = reinterpret_cast<float*>(scratch + padded(source_.scratch_bytes(samples)));
        const ConvLoops& loops = conv_loops();
        if (!adds) {  // what fills the last line is added to other members' too
            std::fill(total + floats_, total + sum_bytes() / sizeof(float), 0.0F);
        }
        for (const ConvChunk& chunk : source_.chunks(samples)) {
            ConvGradientPanel part{.output_gradient = gradient};
            const float* loaded = source_.load(chunk, source, reinterpret_cast<float*>(scratch));
            const std::size_t count = pixels_.count(chunk);
            for (const ConvPanelPlace& place : panels_.places()) {
                loops.copy[static_cast<std::size_t>(place.vectors)](
                    {.tensor = output_gradient + source_.target_start(chunk, output_),
                     .pixels = std::span(pixels_.targets).first(count),
                     .channel_offsets =
                         offsets_of(output_, panels_.first_channel(place), place.channels),
                     .channels = place.channels,
                     .panel = gradient,
                     .sums = total + floats_ + place.column});
                part.source = loaded + (panels_.depthwise() ? place.channel : 0);
                part.runs = runs_[static_cast<std::size_t>(place.group)];
                part.sums = total + place.column * panels_.rows(phase().taps.size());
                part.adds = adds;
                add_products(part, place, count);
            }
            adds = true;
        }
    }

    [[nodiscard]] std::size_t finish_bytes() const override { return 0; }
    void finish(const std::byte* sums, std::byte* /*memory*/, float* weights,
                float* bias) const override {
        const auto* total = reinterpret_cast<const float*>(sums);
        share(team_, panels_.places().size(), sum_bytes(), [&](std::size_t panel) {
            const ConvPanelPlace& place = panels_.places()[panel];
            panels_.unpack(place, phase().taps,
                           total + place.column * panels_.rows(phase().taps.size()), weights);
            if (bias != nullptr) {
                std::copy_n(total + floats_ + place.column, place.weighted,
                            bias + panels_.first_channel(place));
            }
        });
    }

private:
    [[nodiscard]] const ConvPhase& phase() const { return geometry_.phases.front(); }

    /// Some pixels at a time, whose source and gradient stay in the first level of cache.
    void add_products(ConvGradientPanel part, const ConvPanelPlace& place,
                      std::size_t count) const {
        constexpr std::size_t kTogether = 128;
        const ConvLoops& loops = conv_loops();
        const float* gradient = part.output_gradient;
        for (std::size_t p = 0; p < count; p += kTogether) {
            part.pixels = std::span(pixels_.places).subspan(p, std::min(kTogether, count - p));
            part.output_gradient =
                gradient + p * static_cast<std::size_t>(place.vectors * loops.lanes);
            panels_.depthwise() ? loops.depthwise_gradient(part)
                                : loops.gradient[static_cast<std::size_t>(place.vectors)](part);
            part.adds = true;
        }
    }

    ThreadTeam& team_;
    TensorFormat output_;
    ConvPanels panels_;
    ConvGeometry geometry_;
    ConvSource source_;
    std::vector<std::vector<ConvRun>> runs_;  ///< of each group
    std::int64_t floats_;                     ///< of weights
    ConvSource::Pixels pixels_;
    std::int64_t prepared_ = 0;
};

}  // namespace

std::unique_ptr<ConvProduct> make_own_conv(const ConvProblem& problem, ConvDirection direction) {
    return std::make_unique<OwnConv>(problem, direction);
}

std::unique_ptr<ConvWeightGradient> make_own_conv_gradient(const ConvProblem& problem) {
    return std::make_unique<OwnConvGradient>(problem);
}

}  // namespace cohort
