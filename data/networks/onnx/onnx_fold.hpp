#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "data/networks/onnx/onnx_file.hpp"

namespace cohort {

/// A node or a use of it that no layer can take over; what and why, for people.
struct OnnxRefusal {
    std::string text;
};

/// Tensors known so far, by name.
using OnnxConstants = std::map<std::string, OnnxTensor>;

/// Computes a node all of whose inputs are known, or that asks for the shape of a value. @param
/// shape of a value that is not known, its batch as OnnxTensor::kBatch  @return nullopt: the node
/// needs values that only a running network has, or is not computed here. Errors: OnnxRefusal.
[[nodiscard]] std::optional<OnnxTensor> fold_onnx(
    const onnx::Node& node, const OnnxConstants& constants,
    const std::function<std::vector<std::int64_t>(const std::string&)>& shape);

/// Whether nodes of this kind are computed where all of their inputs are known.
[[nodiscard]] bool folds_onnx(const std::string& op);

/// `axis`, counted from the end where it is negative, of so many. Errors: OnnxRefusal.
[[nodiscard]] std::int64_t onnx_axis(std::int64_t axis, std::size_t rank);

/// The tensor with its axes in another order. Errors: OnnxRefusal.
[[nodiscard]] OnnxTensor onnx_transposed(const OnnxTensor& tensor,
                                         const std::vector<std::int64_t>& order);

// Of constants with one shape, or one of which is a single number. Errors: OnnxRefusal.

/// @param op  Add, Sub, Mul, Div or Equal
[[nodiscard]] OnnxTensor onnx_combined(const std::string& op, const OnnxTensor& a,
                                       const OnnxTensor& b);
[[nodiscard]] OnnxTensor onnx_chosen(const OnnxTensor& condition, const OnnxTensor& a,
                                     const OnnxTensor& b);
[[nodiscard]] OnnxTensor onnx_root(const OnnxTensor& tensor);
/// Whole numbers from the first one on, before the last one. Errors: OnnxRefusal.
[[nodiscard]] OnnxTensor onnx_range(const OnnxTensor& first, const OnnxTensor& last,
                                    const OnnxTensor& step);
/// Zero below the diagonal (`upper`) or above it.
[[nodiscard]] OnnxTensor onnx_triangle(const OnnxTensor& tensor, bool upper, std::int64_t diagonal);

}  // namespace cohort
