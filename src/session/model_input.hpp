#pragma once

#include "cohort/data/sample_source.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {

/// What a model for the samples of a set is made for.
[[nodiscard]] inline ModelInput model_input(const SampleSetInfo& info) {
    return {.shape = Shape(info.sample_shape), .classes = info.classes, .tokens = info.tokens()};
}

}  // namespace cohort
