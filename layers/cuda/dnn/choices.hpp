#pragma once

#include "layers/cuda/dnn/dnn_choice.hpp"
#include "layers/cuda/dnn/product_choices.hpp"

namespace cohort::cuda {

/// What the kernels of a replica have chosen so far.
struct Choices {
    DnnPlans plans;
    ProductChoices products;
};

}  // namespace cohort::cuda
