#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/model/graph.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {

/// What an ONNX file says. The scales are those of ModelFile; empty where the file has none.
struct OnnxNetwork {
    Graph graph;
    std::vector<float> mean;
    std::vector<float> std;
    std::vector<float> target_mean;
    std::vector<float> target_std;
};

/// Entries of a file's metadata that hold them: numbers in decimal with spaces between.
inline constexpr const char* kOnnxMean = "cohort.mean";
inline constexpr const char* kOnnxStd = "cohort.std";
inline constexpr const char* kOnnxTargetMean = "cohort.target_mean";
inline constexpr const char* kOnnxTargetStd = "cohort.target_std";

/// Builds the network of an ONNX file, which starts from the file's weights. Layers are named after
/// their weights ("layer1.0.conv1" of "layer1.0.conv1.weight"). Errors: FileError for a file that
/// cannot be read, for an input with other dynamic axes than the batch, and for nodes that no layer
/// can take over, all named at once; for scales that are no finite numbers, or deviations that are
/// not above 0.
[[nodiscard]] OnnxNetwork read_onnx(const std::string& path);

/// What samples a network takes and how many classes it has.
[[nodiscard]] ModelInput input_of(const Graph& graph);

}  // namespace cohort
