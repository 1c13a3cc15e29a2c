#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/model/graph.hpp"
#include "data/networks/onnx/onnx_attention.hpp"
#include "data/networks/onnx/onnx_file.hpp"
#include "data/networks/onnx/onnx_fold.hpp"
#include "data/networks/onnx/onnx_origin.hpp"

namespace cohort {

/// How the axes of a value lie in the file: in a network here they are [N, sample].
enum class OnnxOrder {
    kBatchFirst,
    kTimeFirst,       ///< [T,N,F]
    kTimeDirections,  ///< [T,1,N,F], the output of a recurrent layer
};

/// A value of the running network.
struct OnnxValue {
    Value value;
    OnnxOrder order = OnnxOrder::kBatchFirst;
};

/// The network under construction: adds a layer for each node of an ONNX graph.
class OnnxBuilder {
public:
    /// Errors: FileError for an input that cannot be read.
    explicit OnnxBuilder(OnnxFile file);

    /// Adds all nodes. Errors: FileError naming every node that cannot be taken over.
    [[nodiscard]] Graph build();

    // For the functions that add layers (onnx_layers.cpp). All throw OnnxRefusal.

    [[nodiscard]] GraphBuilder& net() { return net_; }
    /// The value of an input that must be one of the running network, in the usual order.
    [[nodiscard]] Value input(const onnx::Node& node, int index = 0) const;
    [[nodiscard]] const OnnxValue& any_input(const onnx::Node& node, int index = 0) const;
    [[nodiscard]] const Shape& shape(Value value) const { return net_.shape(value); }
    /// The tensor of an input, null where it is no constant or not given.
    [[nodiscard]] const OnnxTensor* constant(const onnx::Node& node, int index) const;
    /// The same of floats, of an input that may be left out. Errors: also when it is computed.
    [[nodiscard]] const OnnxTensor* optional_constant(const onnx::Node& node, int index) const;
    /// The same of floats. Errors: also when there is none.
    [[nodiscard]] const OnnxTensor& weight(const onnx::Node& node, int index) const;
    /// The only node that reads an output of `node`, if there is one and it is of that kind.
    [[nodiscard]] const onnx::Node* only_reader(const onnx::Node& node, std::string_view op) const;
    void set_output(const onnx::Node& node, const OnnxValue& value);
    /// An input that is an intermediate value of an attention, else null.
    [[nodiscard]] const OnnxView* view(const onnx::Node& node, int index) const;
    void set_view(const onnx::Node& node, int output, const OnnxView& view);
    /// The node has become part of another's layer.
    void absorb(const onnx::Node& node) { absorbed_.insert(&node); }
    [[nodiscard]] bool is_batch(std::int64_t extent) const;

    /// Adds a layer with weights. @param weight  after which it is named
    /// @param values  tensors by their names within the layer
    Value add_layer(std::shared_ptr<const Layer> layer, Value input, const onnx::Node& node,
                    const OnnxTensor& weight,
                    const std::map<std::string, const std::vector<float>*>& values);
    /// Adds a layer whose weight is the table of an embedding: the tensor of that origin, or the
    /// same parameter; nullopt: there is none.
    [[nodiscard]] std::optional<Value> add_tied(Value input, const onnx::Node& node,
                                                const OnnxTensor& table);

private:
    void add(const onnx::Node& node);
    [[nodiscard]] std::vector<std::int64_t> shape_with_batch(const std::string& name) const;
    [[nodiscard]] std::string layer_name(const onnx::Node& node, const OnnxTensor& weight);
    [[nodiscard]] Graph finish();

    OnnxFile file_;
    OnnxConstants constants_;
    std::int64_t batch_ = 0;  ///< extent of the input's first axis; 0: dynamic
    std::map<std::string, std::vector<const onnx::Node*>> readers_;
    std::map<std::string, OnnxValue> values_;
    std::map<std::string, OnnxView> views_;
    std::map<std::string, Value> embeddings_;  ///< outputs, by identity of the table
    std::set<std::string> taken_;              ///< names of layers, identities of their weights
    std::set<std::string> unknown_;            ///< outputs of nodes that were refused
    std::set<const onnx::Node*> absorbed_;
    std::map<std::string, std::vector<float>> start_;
    GraphBuilder net_;
};

/// The bias of a layer with so many outputs; nullopt: the module's layer has none, though the file
/// may have zeros in its place. A bias of zeros that the exporter's optimizer has removed from the
/// file is returned as zeros. Errors: OnnxRefusal.
[[nodiscard]] std::optional<OnnxTensor> onnx_bias(const OnnxBuilder& to, const onnx::Node& node,
                                                  int index, std::int64_t outputs);
/// Errors: OnnxRefusal for a norm whose ones and zeros only fill in for a weight and a bias that
/// the module has not: the layer would train them.
void require_weights_of_norm(const OnnxBuilder& to, const onnx::Node& node);
/// Adds the layer of a node. Errors: OnnxRefusal; of a kind that is not known too, with a hint.
void add_onnx_layer(OnnxBuilder& to, const onnx::Node& node);
/// Takes a node as a step of an attention; false: it is none. Errors: OnnxRefusal.
[[nodiscard]] bool add_onnx_attention(OnnxBuilder& to, const onnx::Node& node);
/// Extents of a view. @param batch  that of the axis N
[[nodiscard]] std::vector<std::int64_t> onnx_shape_of(const OnnxBuilder& to, const OnnxView& view,
                                                      std::int64_t batch);
// Of images.
/// Errors: OnnxRefusal for another shape than [C,H,W].
void require_onnx_image(const Shape& shape);
void add_onnx_conv(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_max_pool(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_average_pool(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_global_pool(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_reduce_mean(OnnxBuilder& to, const onnx::Node& node);
// Of sequences and tokens.
/// The operator Attention (operator set 23), which is a layer by itself.
void add_onnx_attention_node(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_transpose(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_layer_norm(OnnxBuilder& to, const onnx::Node& node);
/// Rows of a table by tokens, or the last position of a sequence.
void add_onnx_gather(OnnxBuilder& to, const onnx::Node& node);
void add_onnx_lstm(OnnxBuilder& to, const onnx::Node& node);
/// Whether there are layers for nodes of this kind.
[[nodiscard]] bool knows_onnx_node(std::string_view op);
/// What to do about a kind of node that is not known.
[[nodiscard]] std::string_view onnx_hint(std::string_view op);

}  // namespace cohort
