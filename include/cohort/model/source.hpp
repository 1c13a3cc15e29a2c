#pragma once

#include <functional>
#include <string>

#include "cohort/model/graph.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {

/// Builds a program's own network for samples of a data set. Called on every rank: the same network
/// each time. May throw ShapeError for samples that the network cannot take.
using GraphFactory = std::function<Graph(const ModelInput&)>;

/// Which network a job trains: a model of the zoo, an ONNX file, or what a program builds.
/// make_graph (cohort/networks/network.hpp) builds it.
struct ModelSource {
    std::string model;        ///< a name of the zoo or FILE.onnx; with `build` any name, for people
    std::string init = {};    ///< file of initial weights, .h5 or .safetensors; empty: drawn
    GraphFactory build = {};  ///< a program's; empty: `model` names the network
};

}  // namespace cohort
