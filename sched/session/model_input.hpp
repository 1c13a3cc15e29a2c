#pragma once

#include <string>

#include "cohort/core/error.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {

/// What a model for the samples of a set is made for.
[[nodiscard]] inline ModelInput model_input(const SampleSetInfo& info) {
    return {.shape = Shape(info.sample_shape),
            .classes = info.classes,
            .targets = info.targets,
            .tokens = info.tokens()};
}

/// Errors: UsageError for an accuracy to reach where there are no classes.
inline void require_target_of(const SampleSetInfo& info, double target_accuracy) {
    if (info.task() == Task::kRegression && target_accuracy > 0) {
        fail<UsageError>({.where = "--target-accuracy",
                          .what = "the data set holds targets, which have no accuracy",
                          .expected = "--target-loss, which is 1 - R2",
                          .got = std::to_string(target_accuracy)});
    }
}

}  // namespace cohort
