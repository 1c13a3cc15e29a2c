#pragma once

#include <string>

#include "data/networks/onnx/onnx.pb.h"

namespace cohort {

// What PyTorch's exporter (torch.onnx.export with dynamo=True, the default since 2.9) notes beside
// a node of the module and the parameters that it comes from, and its optimizer of what it has
// changed. Files of other programs say nothing of it.

/// Module of a layer with weights, "layer1.0.conv1"; empty: not said, or no such module.
[[nodiscard]] std::string onnx_module(const onnx::Node& node);
/// The parameter that is the node's weight, by a name of the exporter's own; empty: not said.
[[nodiscard]] std::string onnx_weight_parameter(const onnx::Node& node);

enum class OnnxBias { kUnknown, kGiven, kNone };
/// Whether the module had a bias, whatever the node has.
[[nodiscard]] OnnxBias onnx_bias_parameter(const onnx::Node& node);

/// Whether a batch norm has been multiplied into the weights of the node, for inference.
[[nodiscard]] bool holds_batch_norm(const onnx::Node& node);

}  // namespace cohort
