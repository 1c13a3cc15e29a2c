#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/networks/onnx/onnx.pb.h"

namespace cohort {

/// Element types of ONNX tensors that networks here can have.
inline constexpr int kOnnxFloat = 1;
inline constexpr int kOnnxInt32 = 6;
inline constexpr int kOnnxInt64 = 7;

/// A tensor that is known before the network runs: a weight or a computed constant.
struct OnnxTensor {
    /// Where an extent or a number is that of the batch, which is not known.
    static constexpr std::int64_t kBatch = INT64_MIN;

    std::string origin;  ///< initializer that the values are; empty: computed
    std::vector<std::int64_t> shape;
    std::vector<float> floats;       ///< row-major; empty for whole numbers
    std::vector<std::int64_t> ints;  ///< row-major; empty for floats
    [[nodiscard]] bool whole() const noexcept { return !ints.empty(); }
    [[nodiscard]] std::int64_t elements() const noexcept {
        return static_cast<std::int64_t>(whole() ? ints.size() : floats.size());
    }
};

/// An ONNX file in memory, its weights apart.
struct OnnxFile {
    std::string path;
    onnx::Model model;  ///< without the weights' bytes
    std::map<std::string, OnnxTensor> weights;

    [[nodiscard]] const onnx::Graph& graph() const noexcept { return model.graph(); }
};

/// Reads a file, and the files of weights beside it that it names. Errors: FileError for one that
/// is missing, torn or no ONNX, for weights of other types than 32-bit floats (named all at once)
/// and for shapes that do not fit their bytes.
[[nodiscard]] OnnxFile read_onnx_file(const std::string& path);

/// The tensor in an attribute or initializer. Errors: FileError. @param where  the file
[[nodiscard]] OnnxTensor onnx_tensor(const onnx::Tensor& tensor, const std::string& where);

/// Attributes of a node by name, with the value of one that is missing.
[[nodiscard]] const onnx::Attribute* find_attribute(const onnx::Node& node, std::string_view name);
[[nodiscard]] std::int64_t attribute(const onnx::Node& node, std::string_view name,
                                     std::int64_t missing);
[[nodiscard]] float attribute_float(const onnx::Node& node, std::string_view name, float missing);
[[nodiscard]] std::string attribute_text(const onnx::Node& node, std::string_view name);
[[nodiscard]] std::vector<std::int64_t> attribute_ints(const onnx::Node& node,
                                                       std::string_view name,
                                                       std::vector<std::int64_t> missing = {});

}  // namespace cohort
