// What a GPU does with an update, float by float on the host: the table of units and the rules for
// one element give the bits of the CPU's loops.
#include <gtest/gtest.h>

#include <numeric>

#include "optim/rules.hpp"
#include "optim/update_units.hpp"
#include "support/gpu/update_rules.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using kernels::AdamFactors;
using kernels::Decay;
using kernels::SgdFactors;
using test::mixed_layout;

/// Pieces as the GPU's kernels take them.
class ByElement final : public Updates {
public:
    ByElement(const FlatLayout& layout, std::int64_t begin, std::int64_t end)
        : first_(begin % FlatLayout::kAlignment), units_(update_units(layout, begin, end)) {}

    void sgd(const SgdFactors& k, Decay decay, const UpdatePiece& piece, float* u) override {
        using Rule = SgdFactors::Rule;
        each(piece, decay, [&](auto decays, std::int64_t at, float& theta, float g) {
            constexpr Decay kDecay = decltype(decays)::value;
            switch (k.rule) {
                case Rule::kUnit:
                    kernels::sgd_element<Rule::kUnit, kDecay>(k, theta, u[at], g);
                    break;
                case Rule::kUnitNesterov:
                    kernels::sgd_element<Rule::kUnitNesterov, kDecay>(k, theta, u[at], g);
                    break;
                case Rule::kFractional:
                    kernels::sgd_element<Rule::kFractional, kDecay>(k, theta, u[at], g);
                    break;
            }
        });
    }

    void adamw(const AdamFactors& k, Decay decay, const UpdatePiece& piece, float* m, float* v,
               float* partial) override {
        using Rule = AdamFactors::Rule;
        each(piece, decay, [&](auto decays, std::int64_t i, float& theta, float g) {
            constexpr Decay kDecay = decltype(decays)::value;
            switch (k.rule) {
                case Rule::kWhole:
                    kernels::adamw_element<Rule::kWhole, kDecay>(k, theta, m[i], v[i], partial[i],
                                                                 g);
                    break;
                case Rule::kAccumulate:
                    kernels::adamw_element<Rule::kAccumulate, kDecay>(k, theta, m[i], v[i],
                                                                      partial[i], g);
                    break;
                case Rule::kFirst:
                    kernels::adamw_element<Rule::kFirst, kDecay>(k, theta, m[i], v[i], partial[i],
                                                                 g);
                    break;
                case Rule::kComplete:
                    kernels::adamw_element<Rule::kComplete, kDecay>(k, theta, m[i], v[i],
                                                                    partial[i], g);
                    break;
            }
        });
    }

    void sgd_delta(const kernels::DeltaFactors& k, const UpdatePiece& piece, float* u) override {
        each(piece, Decay::kNone, [&](auto /*decays*/, std::int64_t at, float& theta, float delta) {
            kernels::sgd_delta_element(k, theta, u[at], delta);
        });
    }
    void add_delta(const UpdatePiece& piece) override {
        each(piece, Decay::kNone,
             [&](auto /*decays*/, std::int64_t /*at*/, float& theta, float delta) {
                 theta += delta;
             });
    }
    void share(std::int64_t size,
               const std::function<void(std::int64_t, std::int64_t)>& apply) override {
        apply(0, size);
    }

private:
    template <class F>
    void each(const UpdatePiece& piece, Decay decay, F&& f) const {
        for (std::int64_t i = 0; i < piece.count; ++i) {
            const std::int64_t place = first_ + piece.offset + i;
            const std::uint8_t unit =
                units_[static_cast<std::size_t>(place / FlatLayout::kAlignment)];
            if (place % FlatLayout::kAlignment >= unit_used(unit)) {
                continue;
            }
            float& theta = piece.theta[i];
            const float g = piece.gradient[i];
            const std::int64_t at = piece.offset + i;
            if (!unit_decays(unit) || decay == Decay::kNone) {
                f(std::integral_constant<Decay, Decay::kNone>{}, at, theta, g);
            } else if (decay == Decay::kCoupled) {
                f(std::integral_constant<Decay, Decay::kCoupled>{}, at, theta, g);
            } else {
                f(std::integral_constant<Decay, Decay::kDecoupled>{}, at, theta, g);
            }
        }
    }

    std::int64_t first_;
    std::vector<std::uint8_t> units_;
};

TEST(UpdateUnits, SayOfEveryFloatWhatTheRunsSay) {
    const FlatLayout layout = mixed_layout();
    for (std::int64_t begin = 0; begin < layout.total(); begin += 5) {
        for (std::int64_t end = begin; end <= layout.total(); end += 7) {
            const std::vector<std::uint8_t> units = update_units(layout, begin, end);
            std::vector<int> wanted(static_cast<std::size_t>(end - begin), 0);
            for (const UpdateRun& run : update_runs(layout, begin, end)) {
                std::fill(wanted.begin() + run.begin, wanted.begin() + run.end, run.decay ? 2 : 1);
            }
            for (std::int64_t i = 0; i < end - begin; ++i) {
                const std::int64_t place = begin % FlatLayout::kAlignment + i;
                const std::uint8_t unit =
                    units.at(static_cast<std::size_t>(place / FlatLayout::kAlignment));
                const bool used = place % FlatLayout::kAlignment < unit_used(unit);
                const int found = used ? (unit_decays(unit) ? 2 : 1) : 0;
                ASSERT_EQ(found, wanted[static_cast<std::size_t>(i)])
                    << "float " << i << " of [" << begin << ", " << end << ")";
            }
        }
    }
}

class ElementRules : public testing::TestWithParam<test::RuleCase> {};

TEST_P(ElementRules, GiveTheBitsOfTheLoops) {
    const FlatLayout layout = mixed_layout();
    const std::int64_t begin = 7;  // inside a tensor, not a multiple of four
    const std::int64_t end = layout.total() - 3;
    test::expect_the_bits_of_the_loops(GetParam(), layout, begin, end,
                                       std::make_unique<ByElement>(layout, begin, end));
}

INSTANTIATE_TEST_SUITE_P(Rules, ElementRules, testing::ValuesIn(test::rule_cases()));

}  // namespace
}  // namespace cohort
