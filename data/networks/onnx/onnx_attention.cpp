// Attention (Vaswani et al. 2017, section 3.2) is exported as a dozen nodes: features are split
// into heads, axes change places, and products, a mask and a softmax follow. Each node moves a view
// on; the last one, which joins the heads, adds the layer. Operator set 23 has one node for the
// products and what is between them, or for all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/networks/onnx/onnx_builder.hpp"

namespace cohort {
namespace {

using Extents = std::vector<std::int64_t>;
using Stage = OnnxView::Stage;

[[noreturn]] void refuse_attention(const char* what) {
    throw OnnxRefusal{fmt::format("an attention with {}", what)};
}

/// A constant of one number.
std::optional<double> number_at(const OnnxBuilder& to, const onnx::Node& node, int index) {
    const OnnxTensor* found = to.constant(node, index);
    if (found == nullptr || found->elements() != 1) {
        return std::nullopt;
    }
    return found->whole() ? static_cast<double>(found->ints[0])
                          : static_cast<double>(found->floats[0]);
}

/// The axes that a product over one value's features becomes: [N,T,3,H,D] or [N,T,H,D].
void split_heads(OnnxBuilder& to, const onnx::Node& node, const Extents& shape, OnnxView view) {
    if (shape.size() == 5) {
        if (shape[2] != 3) {
            refuse_attention("heads before queries, keys and values");
        }
        view.axes = "NTPHD";
        view.heads = shape[3];
    } else {
        view.axes = "NTHD";
        view.heads = shape[2];
    }
    if (view.heads < 1) {
        refuse_attention("heads that are not known");
    }
    to.set_view(node, 0, view);
}

/// Adds the layer of all sources.
void finish_attention(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    const auto& [queries, keys, values] = view.sources;
    Value all = queries->value;
    if (queries->part < 0 && keys->part < 0 && values->part < 0) {
        const Shape& shape = to.shape(queries->value);
        if (to.shape(keys->value) != shape || to.shape(values->value) != shape) {
            refuse_attention("queries, keys and values of different shapes");
        }
        all = to.net().concat({queries->value, keys->value, values->value});
    } else if (*queries != OnnxView::Source{all, 0} || *keys != OnnxView::Source{all, 1} ||
               *values != OnnxView::Source{all, 2}) {
        refuse_attention("queries, keys and values in another order");
    }
    to.set_output(node, {to.net().attention(all, {.heads = view.heads, .causal = view.causal})});
}

/// [N,H,..] to [NH,..] or back, for a transposition that exporters put between; false: neither.
bool regroup_heads(OnnxBuilder& to, const onnx::Node& node, const Extents& shape, OnnxView view) {
    const bool joins = view.axes.size() == 4 && view.axes.starts_with("NH") && shape.size() == 3;
    const bool parts = view.axes.size() == 3 && view.axes[0] == 'B' && shape.size() == 4;
    if (view.stage != Stage::kPart || (!joins && !parts)) {
        return false;
    }
    const Extents before = onnx_shape_of(to, view, 1);
    if (!std::equal(shape.end() - 2, shape.end(), before.end() - 2) ||
        (parts && shape[1] != view.heads)) {
        return false;
    }
    view.axes.replace(0, joins ? 2 : 1, joins ? "B" : "NH");
    to.set_view(node, 0, view);
    return true;
}

void reshape(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    const OnnxTensor* shape = to.constant(node, 1);
    if (shape == nullptr || !shape->whole()) {
        refuse_attention("a shape that is not known");
    }
    if (view.stage == Stage::kMeans && view.axes == "NTHD" && shape->elements() == 3) {
        finish_attention(to, node, view);
    } else if (view.stage == Stage::kPart && view.axes == "NTF" && shape->elements() == 4) {
        split_heads(to, node, shape->ints, view);
    } else if (!regroup_heads(to, node, shape->ints, view)) {
        refuse_attention("another change of shape");
    }
}

/// The view of one of three parts along an axis.
OnnxView picked_part(OnnxView view, std::size_t axis, int part) {
    if (!view.sources[0] || view.sources[0]->part >= 0 || part < 0 || part > 2) {
        refuse_attention("other parts than queries, keys and values");
    }
    if (view.axes[axis] == 'H' && view.heads % 3 != 0) {
        refuse_attention("other parts than queries, keys and values");
    }
    view.sources[0]->part = part;
    view.heads = view.axes[axis] == 'H' ? view.heads / 3 : view.heads;
    view.axes[axis] = view.axes[axis] == 'P' ? '1' : view.axes[axis];
    return view;
}

void split(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    const auto axis =
        static_cast<std::size_t>(onnx_axis(attribute(node, "axis", 0), view.axes.size()));
    if (node.output_size() != 3 ||
        std::string_view("PHF").find(view.axes[axis]) == std::string_view::npos) {
        refuse_attention("other parts than queries, keys and values");
    }
    const OnnxTensor* sizes = to.constant(node, 1);
    if (sizes != nullptr && std::ranges::any_of(sizes->ints, [&](std::int64_t size) {
            return size != sizes->ints.front();
        })) {
        refuse_attention("parts of different sizes");
    }
    for (int part = 0; part < 3; ++part) {
        to.set_view(node, part, picked_part(view, axis, part));
    }
}

/// Into a list of parts, which one node each takes out.
void split_to_sequence(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    view.split_axis =
        static_cast<std::size_t>(onnx_axis(attribute(node, "axis", 0), view.axes.size()));
    const OnnxTensor* sizes = to.constant(node, 1);
    const std::int64_t features = onnx_shape_of(to, view, 1)[view.split_axis];
    const bool thirds =
        sizes != nullptr &&
        std::string_view("PHF").find(view.axes[view.split_axis]) != std::string_view::npos &&
        (sizes->elements() == 1 || sizes->elements() == 3) &&
        std::ranges::all_of(sizes->ints, [&](std::int64_t size) { return 3 * size == features; });
    if (!thirds || view.stage != Stage::kPart) {
        refuse_attention("other parts than queries, keys and values");
    }
    view.stage = Stage::kSequence;
    to.set_view(node, 0, view);
}

void take_from_sequence(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    const auto index = number_at(to, node, 1);
    if (!index || view.stage != Stage::kSequence) {
        refuse_attention("a part that is not known");
    }
    view.stage = Stage::kPart;
    const double place = *index < 0 ? *index + 3 : *index;
    to.set_view(node, 0, picked_part(view, view.split_axis, static_cast<int>(place)));
}

void pick(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    const auto axis =
        static_cast<std::size_t>(onnx_axis(attribute(node, "axis", 0), view.axes.size()));
    const auto index = number_at(to, node, 1);
    if (!index || view.axes[axis] != 'P') {
        refuse_attention("a part that is not known");
    }
    OnnxView part = picked_part(view, axis, static_cast<int>(*index));
    part.axes.erase(axis, 1);
    to.set_view(node, 0, part);
}

void squeeze(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    const auto axis = number_at(to, node, 1);
    const auto at = axis ? static_cast<std::size_t>(
                               onnx_axis(static_cast<std::int64_t>(*axis), view.axes.size()))
                         : std::string::npos;
    if (at == std::string::npos || view.axes[at] != '1') {
        refuse_attention("an axis that is not known");
    }
    view.axes.erase(at, 1);
    to.set_view(node, 0, view);
}

void transpose(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    const Extents order = attribute_ints(node, "perm");
    if (order.size() != view.axes.size()) {
        refuse_attention("axes in an order that is not known");
    }
    std::string axes;
    for (const std::int64_t axis : order) {
        axes += view.axes[static_cast<std::size_t>(onnx_axis(axis, view.axes.size()))];
    }
    view.axes = axes;
    to.set_view(node, 0, view);
}

void scale(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    const bool divides = node.op_type() == "Div";
    auto factor = number_at(to, node, 1);
    if (!factor && !divides) {
        factor = number_at(to, node, 0);
    }
    if (!factor || (view.stage != Stage::kPart && view.stage != Stage::kScores)) {
        refuse_attention("a factor that is not known");
    }
    view.scale *= divides ? 1 / *factor : *factor;
    to.set_view(node, 0, view);
}

/// Queries and keys, or shares and values.
void multiply(OnnxBuilder& to, const onnx::Node& node, OnnxView left, const OnnxView& right) {
    const bool scores = left.stage == Stage::kPart && right.stage == Stage::kPart &&
                        left.axes == "NHTD" && right.axes == "NHDT";
    const bool means = left.stage == Stage::kShares && right.stage == Stage::kPart &&
                       right.axes == "NHTD" && right.scale == 1;
    if ((!scores && !means) || left.heads != right.heads) {
        refuse_attention("another product");
    }
    left.stage = scores ? Stage::kScores : Stage::kMeans;
    left.axes = scores ? "NHTS" : "NHTD";
    left.scale *= right.scale;
    left.sources[scores ? 1 : 2] = right.sources[0];
    to.set_view(node, 0, left);
}

/// @param hidden  by [query][key] whether the mask hides the key
void mask(OnnxBuilder& to, const onnx::Node& node, OnnxView view, const std::vector<char>& hidden) {
    const std::int64_t positions = to.shape(view.sources[0]->value)[0];
    if (view.stage != Stage::kScores ||
        static_cast<std::int64_t>(hidden.size()) != positions * positions) {
        refuse_attention("a mask of another shape");
    }
    const bool any = std::ranges::count(hidden, 1) > 0;
    for (std::int64_t at = 0; any && at < positions * positions; ++at) {
        if ((hidden[static_cast<std::size_t>(at)] != 0) != (at % positions > at / positions)) {
            refuse_attention("a mask other than the causal one");
        }
    }
    view.causal = view.causal || any;
    to.set_view(node, 0, view);
}

void add_mask(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    const OnnxTensor* added = to.constant(node, 0);
    added = added == nullptr ? to.constant(node, 1) : added;
    if (added == nullptr) {
        refuse_attention("a mask that is not known");
    }
    constexpr float kHides = -1e4F;
    std::vector<char> hidden;
    for (const float value : added->floats) {
        if (value != 0 && !(value <= kHides)) {
            refuse_attention("numbers added to its scores");
        }
        hidden.push_back(value != 0 ? 1 : 0);
    }
    mask(to, node, view, hidden);
}

void require_usual_scale(const OnnxBuilder& to, const OnnxView& view, double scale) {
    const auto features = static_cast<double>(to.shape(view.sources[0]->value)[1]);
    const double parts = view.sources[0]->part < 0 ? 1 : 3;
    const double usual = 1 / std::sqrt(features / parts / static_cast<double>(view.heads));
    constexpr double kRounding = 1e-4;
    if (!(std::abs(scale / usual - 1) <= kRounding)) {
        refuse_attention("scores that are not divided by the root of a head's features");
    }
}

void soften(OnnxBuilder& to, const onnx::Node& node, OnnxView view) {
    if (view.stage != Stage::kScores ||
        onnx_axis(attribute(node, "axis", -1), view.axes.size()) != 3) {
        refuse_attention("a softmax of something else than its scores");
    }
    require_usual_scale(to, view, view.scale);
    view.stage = Stage::kShares;
    view.scale = 1;
    to.set_view(node, 0, view);
}

void drop(OnnxBuilder& to, const onnx::Node& node, const OnnxView& view) {
    if (number_at(to, node, 1).value_or(attribute_float(node, "ratio", 0.5F)) > 0) {
        refuse_attention("dropout of its shares; with a probability of 0 it is trained");
    }
    to.set_view(node, 0, view);
}

/// Of a node of the operator Attention that computes something else than the layer.
void refuse_node_variants(const onnx::Node& node) {
    const auto given = [](const auto& names, int index) {
        return index < names.size() && !names[index].empty();
    };
    if (given(node.input(), 3)) {
        refuse_attention("a mask as an input; is_causal=1 in its place, or none");
    }
    for (int index = 4; index < node.input_size(); ++index) {
        if (given(node.input(), index)) {
            refuse_attention("keys and values of earlier calls, or their lengths");
        }
    }
    for (int index = 1; index < node.output_size(); ++index) {
        if (given(node.output(), index)) {
            refuse_attention("its keys, values or scores as outputs");
        }
    }
    if (attribute_float(node, "softcap", 0) != 0) {
        refuse_attention("bounded scores (softcap)");
    }
    if (attribute(node, "softmax_precision", kOnnxFloat) != kOnnxFloat) {
        refuse_attention("a softmax of another precision than float32");
    }
    const std::int64_t heads = attribute(node, "q_num_heads", 0);
    if (attribute(node, "kv_num_heads", heads) != heads) {
        refuse_attention(
            "other heads of keys and values than of queries (q_num_heads, kv_num_heads)");
    }
}

/// Begins a view where a value is split for an attention; false: it is not.
bool begin(OnnxBuilder& to, const onnx::Node& node) {
    const bool reshapes = node.op_type() == "Reshape";
    const bool sequence = node.op_type() == "SplitToSequence";
    if (!reshapes && !sequence && node.op_type() != "Split") {
        return false;
    }
    const Value x = to.input(node);
    const Shape& shape = to.shape(x);
    const OnnxTensor* wanted = to.constant(node, 1);
    if (shape.rank() != 2) {
        return false;
    }
    const OnnxView whole{.axes = "NTF", .sources = {OnnxView::Source{x}}};
    if (!reshapes) {
        sequence ? split_to_sequence(to, node, whole) : split(to, node, whole);
        return true;
    }
    if (wanted == nullptr || !wanted->whole() || wanted->elements() < 4 || wanted->elements() > 5) {
        return false;
    }
    split_heads(to, node, wanted->ints, whole);
    return true;
}

}  // namespace

std::vector<std::int64_t> onnx_shape_of(const OnnxBuilder& to, const OnnxView& view,
                                        std::int64_t batch) {
    const Shape& shape = to.shape(view.sources[0]->value);
    const std::int64_t features = shape[1] / (view.sources[0]->part < 0 ? 1 : 3);
    const std::int64_t parts = view.axes.find('P') == std::string::npos ? 1 : 3;
    std::vector<std::int64_t> extents;
    for (const char axis : view.axes) {
        switch (axis) {
            case 'N': extents.push_back(batch); break;
            case 'B':
                extents.push_back(batch == OnnxTensor::kBatch ? batch : batch * view.heads);
                break;
            case 'T':
            case 'S': extents.push_back(shape[0]); break;
            case 'P': extents.push_back(parts); break;
            case 'H': extents.push_back(view.heads); break;
            case 'D': extents.push_back(features / parts / view.heads); break;
            case 'F': extents.push_back(features); break;
            default: extents.push_back(1); break;
        }
    }
    return extents;
}

void add_onnx_attention_node(OnnxBuilder& to, const onnx::Node& node) {
    refuse_node_variants(node);
    OnnxView view{.stage = Stage::kMeans, .causal = attribute(node, "is_causal", 0) != 0};
    for (int index = 0; index < 3; ++index) {
        const OnnxView* split = to.view(node, index);
        const OnnxView part =
            split != nullptr
                ? *split
                : OnnxView{.axes = "NTF", .sources = {OnnxView::Source{to.input(node, index)}}};
        const bool whole = part.axes == "NTF" && to.shape(part.sources[0]->value).rank() == 2;
        if (part.stage != Stage::kPart || part.scale != 1 || (!whole && part.axes != "NHTD")) {
            refuse_attention("inputs other than [N,T,F], or [N,heads,T,F] made of them");
        }
        const std::int64_t heads = whole ? attribute(node, "q_num_heads", 0) : part.heads;
        if (heads < 1 || (index > 0 && (heads != view.heads || part.axes != view.axes))) {
            refuse_attention("heads that differ, or that are not known (q_num_heads)");
        }
        view.heads = heads;
        view.axes = part.axes;
        view.sources[static_cast<std::size_t>(index)] = part.sources[0];
    }
    if (find_attribute(node, "scale") != nullptr) {
        require_usual_scale(to, view, attribute_float(node, "scale", 1));
    }
    if (view.axes == "NTF") {
        finish_attention(to, node, view);
    } else {
        to.set_view(node, 0, view);
    }
}

bool add_onnx_attention(OnnxBuilder& to, const onnx::Node& node) {
    const std::string& op = node.op_type();
    if (op == "Attention") {
        return false;
    }
    const OnnxView* first = to.view(node, 0);
    const OnnxView* second = to.view(node, 1);
    if (first == nullptr && second == nullptr) {
        return begin(to, node);
    }
    const OnnxView& any = first != nullptr ? *first : *second;
    if (op == "MatMul" && first != nullptr && second != nullptr) {
        multiply(to, node, *first, *second);
    } else if ((op == "Mul" || op == "Div") && (first == nullptr || second == nullptr)) {
        scale(to, node, any);
    } else if (op == "Add" && (first == nullptr || second == nullptr)) {
        add_mask(to, node, any);
    } else if (op == "Reshape") {
        reshape(to, node, any);
    } else if (op == "Split") {
        split(to, node, any);
    } else if (op == "SplitToSequence") {
        split_to_sequence(to, node, any);
    } else if (op == "SequenceAt") {
        take_from_sequence(to, node, any);
    } else if (op == "Gather") {
        pick(to, node, any);
    } else if (op == "Squeeze") {
        squeeze(to, node, any);
    } else if (op == "Transpose") {
        transpose(to, node, any);
    } else if (op == "Softmax") {
        soften(to, node, any);
    } else if (op == "Dropout") {
        drop(to, node, any);
    } else if (op == "Identity" || op == "Cast") {
        to.set_view(node, 0, any);
    } else {
        refuse_attention("another operator");
    }
    return true;
}

}  // namespace cohort
