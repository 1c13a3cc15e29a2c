#include "cohort/model/slow_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

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
    constexpr double kHalfAsLongAgain = 1.0 / 3;
    constexpr std::size_t kNamed = 3;
    const double lost =
        std::accumulate(slow.begin(), slow.end(), 0.0,
                        [](double sum, const SlowLayer& layer) { return sum + layer.lost; });
    if (lost < kHalfAsLongAgain) {
        return "";
    }
    std::string names;
    for (std::size_t i = 0; i < std::min(kNamed, slow.size()); ++i) {
        names += fmt::format("{}{} {} {:.1f} %{}", i == 0 ? "" : ", ", slow[i].layer,
                             slow[i].backward ? "backward" : "forward", 100 * slow[i].share,
                             slow[i].by.empty() ? "" : " (by " + slow[i].by + ")");
    }
    if (slow.size() > kNamed) {
        names += fmt::format(" and {} more", slow.size() - kNamed);
    }
    return fmt::format(
        "layers are slow on this processor: of a core's product of matrices, {:.0f} GF/s, they "
        "reach: {}; at {:.0f} % of it all layers together would take {:.0f} % less time",
        1e-9 * product_flops, names, 100 * kProductFloor, 100 * lost);
}

std::int64_t samples_of_thread(std::int64_t batch, int threads) {
    return (batch + threads - 1) / threads;
}

void SlowLayerWatch::begin() {
    if (steps_ > 0 && !done()) {
        replica_.set_profiling(true);
    }
}

std::string SlowLayerWatch::end(std::int64_t samples) {
    if (done()) {
        return "";
    }
    if (steps_ > 0) {
        replica_.set_profiling(false);
    }
    if (samples == 0) {
        return "";
    }
    if (steps_++ == 0) {
        product_flops_ = measure_product_();
        return "";
    }
    const auto of_thread = static_cast<double>(samples_of_thread(samples, threads_));
    std::vector<LayerProfile> step = replica_.profile();
    for (std::size_t i = 0; i < step.size(); ++i) {
        step[i].forward_s /= of_thread;
        step[i].backward_s /= of_thread;
        if (!fastest_.empty()) {
            step[i].forward_s = std::min(step[i].forward_s, fastest_[i].forward_s);
            step[i].backward_s = std::min(step[i].backward_s, fastest_[i].backward_s);
        }
    }
    fastest_ = std::move(step);
    return done() ? slow_layers_sentence(slow_layers(fastest_, 1, product_flops_), product_flops_)
                  : "";
}

}  // namespace cohort
