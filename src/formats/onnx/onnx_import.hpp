#pragma once

#include <optional>
#include <string>

#include "cohort/model/graph.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {

/// Builds the network of an ONNX file, which starts from the file's weights. Layers are named after
/// their weights ("layer1.0.conv1" of "layer1.0.conv1.weight"). Errors: FileError for a file that
/// cannot be read, for an input with other dynamic axes than the batch, and for nodes that no layer
/// can take over, all named at once.
[[nodiscard]] Graph read_onnx(const std::string& path);

/// What samples a network takes and how many classes it has.
[[nodiscard]] ModelInput input_of(const Graph& graph);

}  // namespace cohort
