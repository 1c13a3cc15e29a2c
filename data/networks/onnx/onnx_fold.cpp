// Constant folding: what exporters compute of shapes and weights before a layer uses it. Results
// are numbers of one input in another order, given by a list of indices, or new whole numbers.
#include "data/networks/onnx/onnx_fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using Extents = std::vector<std::int64_t>;
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

std::int64_t product(const Extents& extents) {
    std::int64_t total = 1;
    for (const std::int64_t extent : extents) {
        if (extent < 0 || (extent > 0 && total > kMostElements / extent)) {
            throw OnnxRefusal{"a computed tensor depends on the batch or is too large"};
        }
        total *= extent;
    }
    return total;
}

/// Numbers `indices` of a tensor, in another shape.
OnnxTensor picked(const OnnxTensor& from, Extents shape, const Extents& indices) {
    OnnxTensor to{.origin = from.origin, .shape = std::move(shape)};
    for (const std::int64_t index : indices) {
        if (index < 0 || index >= from.elements()) {
            throw OnnxRefusal{"an index lies outside of its tensor"};
        }
        if (from.whole()) {
            to.ints.push_back(from.ints[static_cast<std::size_t>(index)]);
        } else {
            to.floats.push_back(from.floats[static_cast<std::size_t>(index)]);
        }
    }
    return to;
}

Extents strides_of(const Extents& shape) {
    Extents strides(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;) {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    return strides;
}

/// Calls `visit` with every index of a tensor of that shape, in order.
void each_index(const Extents& shape, const std::function<void(const Extents&)>& visit) {
    Extents index(shape.size(), 0);
    for (std::int64_t left = product(shape); left > 0; --left) {
        visit(index);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            if (++index[axis] < shape[axis]) {
                break;
            }
            index[axis] = 0;
        }
    }
}

OnnxTensor whole_numbers(Extents values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return {.shape = {count}, .ints = std::move(values)};
}

/// A node whose known inputs can be asked for.
class Folding {
public:
    Folding(const onnx::Node& node, const OnnxConstants& constants)
        : node_(node), constants_(constants) {}

    [[nodiscard]] bool known() const {
        return std::ranges::all_of(node_.input(), [&](const std::string& name) {
            return name.empty() || constants_.contains(name);
        });
    }
    [[nodiscard]] bool has(int input) const {
        return input < node_.input_size() && constants_.contains(node_.input(input));
    }
    [[nodiscard]] const OnnxTensor& at(int input) const {
        if (!has(input)) {
            throw OnnxRefusal{"an input is missing"};
        }
        return constants_.at(node_.input(input));
    }
    [[nodiscard]] const Extents& ints(int input) const {
        if (at(input).elements() > 0 && !at(input).whole()) {
            throw OnnxRefusal{"an input is not of whole numbers"};
        }
        return at(input).ints;
    }
    /// An attribute of older operator sets, an input of newer ones.
    [[nodiscard]] Extents axes() const { return has(1) ? ints(1) : attribute_ints(node_, "axes"); }
    [[nodiscard]] const onnx::Node& node() const { return node_; }

private:
    const onnx::Node& node_;
    const OnnxConstants& constants_;
};

OnnxTensor constant_of(const Folding& f) {
    for (const onnx::Attribute& attribute : f.node().attribute()) {
        if (attribute.name() == "value") {
            return onnx_tensor(attribute.t(), f.node().name());
        }
        if (attribute.name() == "value_float") {
            return {.shape = {}, .floats = {attribute.f()}};
        }
        if (attribute.name() == "value_int") {
            return {.shape = {}, .ints = {attribute.i()}};
        }
        if (attribute.name() == "value_ints") {
            return whole_numbers({attribute.ints().begin(), attribute.ints().end()});
        }
        if (attribute.name() == "value_floats") {
            return {.shape = {attribute.floats_size()},
                    .floats = {attribute.floats().begin(), attribute.floats().end()}};
        }
    }
    throw OnnxRefusal{"a constant of an unknown type"};
}

OnnxTensor unsqueezed(const Folding& f) {
    OnnxTensor to = f.at(0);
    Extents axes = f.axes();
    for (std::int64_t& axis : axes) {
        axis = onnx_axis(axis, to.shape.size() + axes.size());
    }
    std::ranges::sort(axes);
    for (const std::int64_t axis : axes) {
        to.shape.insert(to.shape.begin() + std::min<std::int64_t>(axis, std::ssize(to.shape)), 1);
    }
    return to;
}

OnnxTensor squeezed(const Folding& f) {
    OnnxTensor to = f.at(0);
    Extents axes = f.axes();
    for (std::int64_t& axis : axes) {
        axis = onnx_axis(axis, to.shape.size());
    }
    Extents shape;
    for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
        const bool named = std::ranges::count(axes, static_cast<std::int64_t>(axis)) > 0;
        if (axes.empty() ? to.shape[axis] != 1 : !named) {
            shape.push_back(to.shape[axis]);
        }
    }
    to.shape = std::move(shape);
    return to;
}

OnnxTensor reshaped(const Folding& f) {
    OnnxTensor to = f.at(0);
    Extents shape = f.ints(1);
    Extents others;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] == 0 && axis < to.shape.size()) {
            shape[axis] = to.shape[axis];
        }
        others.push_back(std::max<std::int64_t>(shape[axis], 1));
    }
    const std::int64_t known = product(others);
    for (std::int64_t& extent : shape) {
        extent = extent == -1 ? to.elements() / known : extent;
    }
    if (product(shape) != to.elements()) {
        throw OnnxRefusal{"a constant does not have the numbers of its new shape"};
    }
    to.shape = std::move(shape);
    return to;
}

OnnxTensor concatenated(const Folding& f) {
    const OnnxTensor& first = f.at(0);
    const auto axis =
        static_cast<std::size_t>(onnx_axis(attribute(f.node(), "axis", 0), first.shape.size()));
    OnnxTensor to{.origin = first.origin, .shape = first.shape};
    to.shape[axis] = 0;
    const std::int64_t rows =
        std::accumulate(first.shape.begin(), first.shape.begin() + static_cast<long>(axis),
                        std::int64_t{1}, std::multiplies<>());
    for (int i = 0; i < f.node().input_size(); ++i) {
        if (f.at(i).shape.size() != first.shape.size()) {
            throw OnnxRefusal{"constants of different ranks are joined"};
        }
        to.shape[axis] += f.at(i).shape[axis];
    }
    for (std::int64_t row = 0; row < std::max<std::int64_t>(rows, 1); ++row) {
        for (int i = 0; i < f.node().input_size(); ++i) {
            const OnnxTensor& from = f.at(i);
            const std::int64_t length = from.elements() / std::max<std::int64_t>(rows, 1);
            const auto copy = [&](const auto& values, auto& result) {
                if (!values.empty()) {
                    result.insert(result.end(), values.begin() + row * length,
                                  values.begin() + (row + 1) * length);
                }
            };
            copy(from.floats, to.floats);
            copy(from.ints, to.ints);
        }
    }
    return to;
}

OnnxTensor sliced(const Folding& f) {
    const OnnxTensor& from = f.at(0);
    const Extents starts = f.has(1) ? f.ints(1) : attribute_ints(f.node(), "starts");
    const Extents ends = f.has(2) ? f.ints(2) : attribute_ints(f.node(), "ends");
    Extents axes = f.has(3) ? f.ints(3) : attribute_ints(f.node(), "axes");
    if (axes.empty()) {
        axes.resize(starts.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    Extents begin(from.shape.size(), 0);
    Extents shape = from.shape;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (f.has(4) && f.ints(4).at(i) != 1) {
            throw OnnxRefusal{"a slice of a constant with steps"};
        }
        const auto axis = static_cast<std::size_t>(onnx_axis(axes[i], from.shape.size()));
        const std::int64_t extent = from.shape[axis];
        const auto place = [&](std::int64_t at) {
            return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
        };
        begin[axis] = place(starts.at(i));
        shape[axis] = std::max<std::int64_t>(place(ends.at(i)) - begin[axis], 0);
    }
    const Extents strides = strides_of(from.shape);
    Extents indices;
    each_index(shape, [&](const Extents& index) {
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < index.size(); ++axis) {
            at += (begin[axis] + index[axis]) * strides[axis];
        }
        indices.push_back(at);
    });
    return picked(from, shape, indices);
}

OnnxTensor gathered(const Folding& f) {
    const OnnxTensor& from = f.at(0);
    const auto axis =
        static_cast<std::size_t>(onnx_axis(attribute(f.node(), "axis", 0), from.shape.size()));
    const Extents strides = strides_of(from.shape);
    Extents rows = from.shape;
    rows.resize(axis);
    Extents shape = rows;
    shape.insert(shape.end(), f.at(1).shape.begin(), f.at(1).shape.end());
    shape.insert(shape.end(), from.shape.begin() + static_cast<long>(axis) + 1, from.shape.end());
    Extents indices;
    for (std::int64_t row = 0; row < product(rows); ++row) {
        for (const std::int64_t given : f.ints(1)) {
            const std::int64_t at = onnx_axis(given, static_cast<std::size_t>(from.shape[axis]));
            for (std::int64_t rest = 0; rest < strides[axis]; ++rest) {
                indices.push_back((row * from.shape[axis] + at) * strides[axis] + rest);
            }
        }
    }
    return picked(from, shape, indices);
}

/// Also the form in which an extent is the batch: zeros that a recurrent layer starts from.
OnnxTensor expanded(const OnnxTensor& from, Extents shape) {
    while (shape.size() < from.shape.size()) {
        shape.insert(shape.begin(), 1);
    }
    Extents source(shape.size() - from.shape.size(), 1);
    source.insert(source.end(), from.shape.begin(), from.shape.end());
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] == OnnxTensor::kBatch) {
            shape[axis] = 1;
        } else if (shape[axis] == 1) {
            shape[axis] = source[axis];
        }
    }
    const Extents strides = strides_of(source);
    Extents indices;
    each_index(shape, [&](const Extents& index) {
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < index.size(); ++axis) {
            at += source[axis] == 1 ? 0 : index[axis] * strides[axis];
        }
        indices.push_back(at);
    });
    return picked(from, shape, indices);
}

OnnxTensor filled(const Folding& f) {
    const onnx::Attribute* value = find_attribute(f.node(), "value");
    const OnnxTensor one = value == nullptr ? OnnxTensor{.shape = {1}, .floats = {0}}
                                            : onnx_tensor(value->t(), f.node().name());
    return expanded(one, f.ints(0));
}

/// Of CastLike: of a value of the running network too, which is of floats.
std::int64_t type_alike(const Folding& f) {
    return f.has(1) && f.at(1).whole() ? kOnnxInt64 : kOnnxFloat;
}

OnnxTensor cast(const Folding& f) {
    OnnxTensor to = f.at(0);
    const std::int64_t type =
        f.node().op_type() == "CastLike" ? type_alike(f) : attribute(f.node(), "to", kOnnxFloat);
    if (type == kOnnxFloat && to.whole()) {
        to.floats.assign(to.ints.begin(), to.ints.end());
        to.ints.clear();
    } else if ((type == kOnnxInt64 || type == kOnnxInt32) && !to.whole()) {
        to.ints.assign(to.floats.begin(), to.floats.end());
        to.floats.clear();
    } else if (type != kOnnxFloat && type != kOnnxInt64 && type != kOnnxInt32) {
        throw OnnxRefusal{"a constant is converted to an unknown type"};
    }
    return to;
}

OnnxTensor combined(const Folding& f) {
    return onnx_combined(f.node().op_type(), f.at(0), f.at(1));
}

OnnxTensor triangle(const Folding& f) {
    return onnx_triangle(f.at(0), attribute(f.node(), "upper", 1) != 0,
                         f.has(1) ? f.ints(1).at(0) : 0);
}

OnnxTensor shape_of(const onnx::Node& node, Extents shape) {
    const auto rank = std::ssize(shape);
    const auto place = [&](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t begin = place(attribute(node, "start", 0));
    const std::int64_t end = place(attribute(node, "end", rank));
    return whole_numbers({shape.begin() + begin, shape.begin() + std::max(begin, end)});
}

using Fold = OnnxTensor (*)(const Folding&);
const std::map<std::string, Fold>& folds() {
    static const std::map<std::string, Fold> all{
        {"Constant", constant_of},
        {"Identity", [](const Folding& f) { return f.at(0); }},
        {"CastLike", cast},
        {"Cast", cast},
        {"Range", [](const Folding& f) { return onnx_range(f.at(0), f.at(1), f.at(2)); }},
        {"Transpose",
         [](const Folding& f) {
             Extents order(f.at(0).shape.size());
             std::iota(order.rbegin(), order.rend(), 0);
             return onnx_transposed(f.at(0), attribute_ints(f.node(), "perm", order));
         }},
        {"Reshape", reshaped},
        {"Unsqueeze", unsqueezed},
        {"Squeeze", squeezed},
        {"Concat", concatenated},
        {"Slice", sliced},
        {"Gather", gathered},
        {"Expand", [](const Folding& f) { return expanded(f.at(0), f.ints(1)); }},
        {"ConstantOfShape", filled},
        {"Add", combined},
        {"Sub", combined},
        {"Mul", combined},
        {"Div", combined},
        {"Equal", combined},
        {"Sqrt", [](const Folding& f) { return onnx_root(f.at(0)); }},
        {"Trilu", triangle},
        {"Where", [](const Folding& f) { return onnx_chosen(f.at(0), f.at(1), f.at(2)); }},
    };
    return all;
}

}  // namespace

bool folds_onnx(const std::string& op) {
    return op == "Shape" || folds().contains(op);
}

std::int64_t onnx_axis(std::int64_t axis, std::size_t rank) {
    const auto extents = static_cast<std::int64_t>(rank);
    const std::int64_t from_start = axis < 0 ? axis + extents : axis;
    if (from_start < 0 || from_start >= extents) {
        throw OnnxRefusal{fmt::format("axis {} of {}", axis, rank)};
    }
    return from_start;
}

OnnxTensor onnx_transposed(const OnnxTensor& tensor, const std::vector<std::int64_t>& order) {
    Extents shape;
    Extents steps;
    const Extents strides = strides_of(tensor.shape);
    if (order.size() != tensor.shape.size()) {
        throw OnnxRefusal{"a transposition of another rank"};
    }
    for (const std::int64_t axis : order) {
        const auto from = static_cast<std::size_t>(onnx_axis(axis, tensor.shape.size()));
        shape.push_back(tensor.shape[from]);
        steps.push_back(strides[from]);
    }
    Extents indices;
    each_index(shape, [&](const Extents& index) {
        indices.push_back(
            std::inner_product(index.begin(), index.end(), steps.begin(), std::int64_t{0}));
    });
    return picked(tensor, shape, indices);
}

std::optional<OnnxTensor> fold_onnx(
    const onnx::Node& node, const OnnxConstants& constants,
    const std::function<std::vector<std::int64_t>(const std::string&)>& shape) {
    const Folding f(node, constants);
    if (node.op_type() == "Shape" && node.input_size() == 1) {
        return shape_of(node, f.has(0) ? f.at(0).shape : shape(node.input(0)));
    }
    const bool like = node.op_type() == "CastLike" && f.has(0);
    const auto fold = folds().find(node.op_type());
    if (fold == folds().end() || (!like && !f.known())) {
        return std::nullopt;
    }
    return fold->second(f);
}

}  // namespace cohort
