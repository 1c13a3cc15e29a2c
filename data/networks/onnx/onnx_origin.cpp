#include "data/networks/onnx/onnx_origin.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace cohort {
namespace {

/// Of an entry beside the node; empty: there is none.
std::string_view note(const onnx::Node& node, std::string_view key) {
    for (const onnx::Entry& entry : node.metadata_props()) {
        if (entry.key() == key) {
            return entry.value();
        }
    }
    return {};
}

/// The texts of a list as Python prints it: ['', 'layer1', 'layer1.0'].
std::vector<std::string_view> listed(std::string_view text) {
    std::vector<std::string_view> words;
    for (std::size_t at = text.find_first_of("'\""); at != std::string_view::npos;
         at = text.find_first_of("'\"", at)) {
        const std::size_t end = text.find(text[at], at + 1);
        if (end == std::string_view::npos) {
            break;
        }
        words.push_back(text.substr(at + 1, end - at - 1));
        at = end + 1;
    }
    return words;
}

/// The module's class or its name: the last but one, before the operator.
std::string_view of_module(const onnx::Node& node, std::string_view key) {
    const std::vector<std::string_view> words = listed(note(node, key));
    return words.size() < 2 ? std::string_view() : words[words.size() - 2];
}

std::string_view class_of(const onnx::Node& node) {
    return of_module(node, "pkg.torch.onnx.class_hierarchy");
}

/// Parameters of the operator that the node was, in the order of its arguments: "p_fc_weight".
std::vector<std::string_view> parameters(const onnx::Node& node) {
    constexpr std::string_view kMark = "%p_";
    std::vector<std::string_view> names;
    std::string_view call = note(node, "pkg.torch.onnx.fx_node");
    call.remove_prefix(std::min(call.find("args = ("), call.size()));
    for (std::size_t at = call.find(kMark); at != std::string_view::npos;
         at = call.find(kMark, at)) {
        const std::size_t end = std::min(call.find_first_of(",) ", at), call.size());
        names.push_back(call.substr(at + 1, end - at - 1));
        at = end;
    }
    return names;
}

}  // namespace

std::string onnx_module(const onnx::Node& node) {
    constexpr auto kWithWeights = std::to_array<std::string_view>(
        {"torch.nn.modules.batchnorm.", "torch.nn.modules.conv.", "torch.nn.modules.linear.",
         "torch.nn.modules.normalization.", "torch.nn.modules.sparse."});
    const bool known = std::ranges::any_of(
        kWithWeights, [&](std::string_view file) { return class_of(node).starts_with(file); });
    if (!known) {
        return "";
    }
    std::string name(of_module(node, "pkg.torch.onnx.name_scopes"));
    return name.substr(0, name.find('@'));  // which call of the module this is
}

std::string onnx_weight_parameter(const onnx::Node& node) {
    if (node.op_type() == "LSTM") {  // one of several layers that were one call
        return "";
    }
    const std::vector<std::string_view> names = parameters(node);
    return names.empty() ? "" : std::string(names.front());
}

OnnxBias onnx_bias_parameter(const onnx::Node& node) {
    const std::vector<std::string_view> names = parameters(node);
    return names.empty()      ? OnnxBias::kUnknown
           : names.size() > 1 ? OnnxBias::kGiven
                              : OnnxBias::kNone;
}

bool holds_batch_norm(const onnx::Node& node) {
    const std::string& op = node.op_type();
    const bool product = op == "Conv" || op == "Gemm" || op == "MatMul";
    return note(node, "pkg.onnxscript.rewriter.rule_name").starts_with("FuseBatchNorm") ||
           (product && class_of(node).starts_with("torch.nn.modules.batchnorm."));
}

}  // namespace cohort
