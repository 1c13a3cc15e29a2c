#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/model/graph.hpp"

namespace cohort {
namespace {

void draw(Initialisation how, const FlatRange& range, Rng rng, float* to) {
    const Shape& shape = range.shape;
    const auto count = static_cast<double>(shape.elements());
    const double outputs = static_cast<double>(shape[0]);
    const double fan_in = count / outputs;
    switch (how) {
        case Initialisation::kZero: std::fill_n(to, range.size, 0.0F); break;
        case Initialisation::kOne: std::fill_n(to, range.size, 1.0F); break;
        case Initialisation::kUniform: {
            const auto limit = static_cast<float>(1.0 / std::sqrt(fan_in));
            std::generate_n(to, range.size,
                            [&] { return limit * (2.0F * rng.next_uniform() - 1.0F); });
            break;
        }
        case Initialisation::kForgetGate: {
            const std::int64_t gate = range.size / 4;
            std::fill_n(to, range.size, 0.0F);
            std::fill_n(to + gate, gate, 1.0F);
            break;
        }
        case Initialisation::kHeNormal: {
            const auto deviation = static_cast<float>(std::sqrt(2.0 / fan_in));
            std::generate_n(to, range.size, [&] { return deviation * rng.next_normal(); });
            break;
        }
    }
}

void draw_all(std::uint64_t seed, const FlatLayout& layout, const std::vector<Initialisation>& how,
              std::uint32_t substream, std::span<float> to) {
    check_invariant(static_cast<std::int64_t>(to.size()) == layout.total(),
                    "flat buffer and layout have one size");
    std::fill(to.begin(), to.end(), 0.0F);
    for (std::size_t i = 0; i < how.size(); ++i) {
        const FlatRange& range = layout.ranges()[i];
        draw(how[i], range, Rng(seed, RngPurpose::kInitialise, i, substream),
             to.data() + range.offset);
    }
}

}  // namespace

void Graph::initialise(std::uint64_t seed, std::span<float> parameters,
                       std::span<float> state) const {
    draw_all(seed, parameters_, initialisations_, 0, parameters);
    draw_all(seed, state_, state_initialisations_, 1, state);
}

}  // namespace cohort
