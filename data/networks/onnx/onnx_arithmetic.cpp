// Arithmetic on constants: scales and masks that exporters compute.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>

#include "data/networks/onnx/onnx_fold.hpp"

namespace cohort {
namespace {

/// The number at a place of a tensor that may be one number alone.
template <class T>
T broadcast(const std::vector<T>& values, std::size_t at) {
    return values[values.size() == 1 ? 0 : at];
}

/// Elements of the result. Errors: OnnxRefusal unless each has as many, or one.
std::size_t common_size(std::initializer_list<const OnnxTensor*> tensors) {
    std::size_t most = 1;
    for (const OnnxTensor* tensor : tensors) {
        most = std::max(most, static_cast<std::size_t>(tensor->elements()));
    }
    for (const OnnxTensor* tensor : tensors) {
        const auto size = static_cast<std::size_t>(tensor->elements());
        if (size != most && size != 1) {
            throw OnnxRefusal{"arithmetic on constants of different shapes"};
        }
    }
    return most;
}

const std::vector<std::int64_t>& larger_shape(const OnnxTensor& a, const OnnxTensor& b) {
    return a.elements() >= b.elements() && a.shape.size() >= b.shape.size() ? a.shape : b.shape;
}

std::int64_t calculated(const std::string& op, std::int64_t x, std::int64_t y) {
    const bool of_batch = x == OnnxTensor::kBatch || y == OnnxTensor::kBatch;
    if (op == "Equal" && !of_batch) {
        return x == y ? 1 : 0;
    }
    if (of_batch || (op == "Div" && y == 0)) {
        throw OnnxRefusal{"arithmetic on the size of the batch"};
    }
    return op == "Add" ? x + y : op == "Sub" ? x - y : op == "Mul" ? x * y : x / y;
}

float calculated(const std::string& op, float x, float y) {
    return op == "Add" ? x + y : op == "Sub" ? x - y : op == "Mul" ? x * y : x / y;
}

}  // namespace

OnnxTensor onnx_combined(const std::string& op, const OnnxTensor& a, const OnnxTensor& b) {
    OnnxTensor to{.shape = larger_shape(a, b)};
    const std::size_t size = common_size({&a, &b});
    if (a.whole() != b.whole()) {
        throw OnnxRefusal{"arithmetic on constants of different types"};
    }
    for (std::size_t i = 0; i < size; ++i) {
        if (a.whole()) {
            to.ints.push_back(calculated(op, broadcast(a.ints, i), broadcast(b.ints, i)));
        } else if (op == "Equal") {
            to.ints.push_back(broadcast(a.floats, i) == broadcast(b.floats, i) ? 1 : 0);
        } else {
            to.floats.push_back(calculated(op, broadcast(a.floats, i), broadcast(b.floats, i)));
        }
    }
    return to;
}

OnnxTensor onnx_root(const OnnxTensor& tensor) {
    OnnxTensor to = tensor;
    std::ranges::transform(to.floats, to.floats.begin(),
                           [](float value) { return std::sqrt(value); });
    return to;
}

OnnxTensor onnx_chosen(const OnnxTensor& condition, const OnnxTensor& a, const OnnxTensor& b) {
    const std::size_t size = common_size({&condition, &a, &b});
    OnnxTensor to{.shape = larger_shape(condition, larger_shape(a, b) == a.shape ? a : b)};
    if (!condition.whole() || a.whole() || b.whole()) {
        throw OnnxRefusal{"a choice between other constants than floats"};
    }
    for (std::size_t i = 0; i < size; ++i) {
        to.floats.push_back(broadcast(condition.ints, i) != 0 ? broadcast(a.floats, i)
                                                              : broadcast(b.floats, i));
    }
    return to;
}

OnnxTensor onnx_range(const OnnxTensor& first, const OnnxTensor& last, const OnnxTensor& step) {
    constexpr std::int64_t kMost = 1 << 24;
    const bool usable = first.ints.size() == 1 && last.ints.size() == 1 && step.ints.size() == 1 &&
                        step.ints[0] > 0 && std::abs(first.ints[0]) < kMost &&
                        std::abs(last.ints[0]) < kMost;
    if (!usable) {
        throw OnnxRefusal{"a range of other numbers than whole ones that grow"};
    }
    OnnxTensor to{.shape = {0}};
    for (std::int64_t value = first.ints[0]; value < last.ints[0]; value += step.ints[0]) {
        to.ints.push_back(value);
    }
    to.shape[0] = to.elements();
    return to;
}

OnnxTensor onnx_triangle(const OnnxTensor& tensor, bool upper, std::int64_t diagonal) {
    OnnxTensor to = tensor;
    to.origin.clear();
    if (to.shape.size() < 2) {
        throw OnnxRefusal{"a triangle of less than a matrix"};
    }
    const std::int64_t rows = to.shape[to.shape.size() - 2];
    const std::int64_t columns = to.shape.back();
    for (std::int64_t at = 0; at < to.elements(); ++at) {
        const std::int64_t beyond = at % columns - at / columns % rows - diagonal;
        if (upper ? beyond >= 0 : beyond <= 0) {
            continue;
        }
        if (to.whole()) {
            to.ints[static_cast<std::size_t>(at)] = 0;
        } else {
            to.floats[static_cast<std::size_t>(at)] = 0;
        }
    }
    return to;
}

}  // namespace cohort
