#pragma once

#include "layers/cpu/level/batch_norm_level.hpp"
#include "layers/cpu/level/level_loops.hpp"
#include "layers/cpu/level/pool_level.hpp"

namespace cohort {
namespace {

template <class Element>
constexpr ElementLoops<Element> kElementLoops{
    .batch_norm = {statistics<Element>, apply<Element>, reduce<Element>, input_gradient<Element>},
    .max_pool = {max_forward<Element, std::uint8_t>, max_backward<Element, std::uint8_t>},
    .max_pool_of_many = {max_forward<Element, std::uint32_t>, max_backward<Element, std::uint32_t>},
    .average_pool = {average_forward<Element>, average_backward<Element>}};

/// What a source that is compiled for a level has.
// NOLINTNEXTLINE(misc-definitions-in-headers): a copy for each level
constexpr LevelLoops kLevelLoops{.f32 = kElementLoops<float>, .bf16 = kElementLoops<std::uint16_t>};

}  // namespace
}  // namespace cohort
