#pragma once

#include <string>
#include <string_view>

#include "cohort/tensor/precision.hpp"
#include "core/options.hpp"

// The options of whatever computes, see core/options.hpp.
namespace cohort {

/// @param what  computes on it
template <class Options, class Visit>
void each_device_option(Options& o, const Visit& visit, std::string_view what) {
    visit({"--device",
           std::string(what) +
               ": cpu, cuda (the workers of a host go round its GPUs), cuda:INDEX; auto: cuda "
               "where there is a usable GPU, else cpu",
           "DEVICE"},
          o.device);
    visit({"--precision",
           "Of activations and products (GPUs: docs/cuda.md); CPUs have f32 and bf16 "
           "(docs/layers.md); auto: tf32 on GPUs, f32 on CPUs"},
          o.precision);
}

}  // namespace cohort
