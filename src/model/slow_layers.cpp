#include "cohort/model/slow_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cohort {

std::string implementations_of(const LayerProfile& layer) {
    std::string text;
    for (const auto& [part, name] : layer.implementations) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

std::vector<SlowLayer> slow_layers(const std::vector<LayerProfile>& profile, double samples,
                                   double product_flops) {
    double all_s = 0;
    for (const LayerProfile& layer : profile) {
        all_s += layer.forward_s + layer.backward_s;
    }
    std::vector<SlowLayer> slow;
    for (const LayerProfile& layer : profile) {
        for (const bool backward : {false, true}) {
            const double seconds = backward ? layer.backward_s : layer.forward_s;
            const double flops = samples * (backward ? layer.flops.backward : layer.flops.forward);
            const double floor_s = flops / (kProductFloor * product_flops);
            if (flops > 0 && seconds > floor_s) {
                slow.push_back({.layer = layer.name,
                                .backward = backward,
                                .share = flops / seconds / product_flops,
                                .lost = (seconds - floor_s) / all_s,
                                .by = implementations_of(layer)});
            }
        }
    }
    std::ranges::stable_sort(slow, std::ranges::greater(), &SlowLayer::lost);
    return slow;
}

std::string slow_layers_sentence(const std::vector<SlowLayer>& slow, double product_flops) {
    constexpr double kNoticed = 0.1;
    constexpr std::size_t kNamed = 3;
    const double lost =
        std::accumulate(slow.begin(), slow.end(), 0.0,
                        [](double sum, const SlowLayer& layer) { return sum + layer.lost; });
    if (lost < kNoticed) {
        return "";
    }
    std::string names;
    for (std::size_t i = 0; i < std::min(kNamed, slow.size()); ++i) {
        names += fmt::format("{}{} {} at {:.1f} %{}", i == 0 ? "" : ", ", slow[i].layer,
                             slow[i].backward ? "backward" : "forward", 100 * slow[i].share,
                             slow[i].by.empty() ? "" : " (by " + slow[i].by + ")");
    }
    if (slow.size() > kNamed) {
        names += fmt::format(" and {} more", slow.size() - kNamed);
    }
    return fmt::format(
        "layers are slow on this processor: of a core's product of matrices, {:.0f} GF/s, reaches "
        "{}; at {:.0f} % of it a step would take {:.0f} % less time",
        1e-9 * product_flops, names, 100 * kProductFloor, 100 * lost);
}

std::string SlowLayerWatch::stepped(std::int64_t samples) {
    if (steps_ > kSteps) {
        return "";
    }
    if (steps_++ == 0) {
        replica_.set_profiling(true);
        return "";
    }
    samples_ += samples;
    if (steps_ <= kSteps) {
        return "";
    }
    replica_.set_profiling(false);
    const double of_thread = static_cast<double>(samples_) / threads_;
    return slow_layers_sentence(slow_layers(replica_.profile(), of_thread, product_flops_),
                                product_flops_);
}

}  // namespace cohort
