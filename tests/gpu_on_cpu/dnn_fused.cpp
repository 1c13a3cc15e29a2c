// Operations of cuDNN's graphs of attention in plain loops: each element of a result by itself, in
// double precision, rounded to the result's type.
#include <algorithm>
#include <cmath>
#include <optional>

#include "dnn_parts.hpp"

namespace cohort::on_cpu {
namespace {

struct Place {
    std::int64_t n = 0;
    std::int64_t h = 0;
    std::int64_t t = 0;
    std::int64_t d = 0;
};

double at(const View& view, const Place& place) {
    return view.get(place.n, place.h, place.t, place.d);
}

/// view[place] = f(place) everywhere.
template <class F>
void fill(const View& view, F&& f) {
    for (Place at; at.n < view.dims[0]; ++at.n) {
        for (at.h = 0; at.h < view.dims[1]; ++at.h) {
            for (at.t = 0; at.t < view.dims[2]; ++at.t) {
                for (at.d = 0; at.d < view.dims[3]; ++at.d) {
                    write(view.data, view.type, view.index(at.n, at.h, at.t, at.d), f(at));
                }
            }
        }
    }
}

void multiply(const Descriptor& operation, Memory& memory) {
    const View a = memory.view(operation.at(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const View b = memory.view(operation.at(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const View c = memory.view(operation.at(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    fill(c, [&](const Place& to) {
        double sum = 0;
        for (std::int64_t k = 0; k < a.dims[3]; ++k) {
            sum += a.get(to.n, to.h, to.t, k) * b.get(to.n, to.h, k, to.d);
        }
        return sum;
    });
}

/// Over the last extent.
void reduce(const Descriptor& operation, Memory& memory) {
    const View from = memory.view(operation.at(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const View to = memory.view(operation.at(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const bool largest =
        operation.at(CUDNN_ATTR_OPERATION_REDUCTION_DESC).one<int>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
        CUDNN_REDUCE_TENSOR_MAX;
    fill(to, [&](Place place) {
        double result = at(from, place);
        for (place.d = 1; place.d < from.dims[3]; ++place.d) {
            const double next = at(from, place);
            result = largest ? std::max(result, next) : result + next;
        }
        return result;
    });
}

void transpose(const Descriptor& operation, Memory& memory) {
    const View from = memory.view(operation.at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    fill(memory.view(operation.at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)),
         [&](const Place& to) { return from.get(to.n, to.h, to.d, to.t); });
}

std::optional<View> operand(const Descriptor& operation, int name, Memory& memory) {
    return operation.attributes.contains(name) ? std::optional(memory.view(operation.at(name)))
                                               : std::nullopt;
}

}  // namespace

void run_fused(const Descriptor& operation, Memory& memory) {
    switch (operation.type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: multiply(operation, memory); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduce(operation, memory); break;
        default: transpose(operation, memory); break;
    }
}

bool run_fused_pointwise(const Descriptor& operation, Memory& memory) {
    const Descriptor& rule = operation.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const int mode = rule.one<int>(CUDNN_ATTR_POINTWISE_MODE);
    const View x = memory.view(operation.at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const auto b = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, memory);
    const auto mask = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, memory);
    const View y = memory.view(operation.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const auto run = [&](auto&& f) {
        fill(y, f);
        return true;
    };
    switch (mode) {
        case CUDNN_POINTWISE_IDENTITY: return run([&](const Place& p) { return at(x, p); });
        case CUDNN_POINTWISE_EXP: return run([&](const Place& p) { return std::exp(at(x, p)); });
        case CUDNN_POINTWISE_LOG: return run([&](const Place& p) { return std::log(at(x, p)); });
        case CUDNN_POINTWISE_MUL: return run([&](const Place& p) { return at(x, p) * at(*b, p); });
        case CUDNN_POINTWISE_SUB: return run([&](const Place& p) { return at(x, p) - at(*b, p); });
        case CUDNN_POINTWISE_DIV: return run([&](const Place& p) { return at(x, p) / at(*b, p); });
        case CUDNN_POINTWISE_CMP_GE:
            return run([&](const Place& p) { return at(x, p) >= at(*b, p) ? 1.0 : 0.0; });
        case CUDNN_POINTWISE_BINARY_SELECT:
            return run([&](const Place& p) { return at(*mask, p) != 0 ? at(x, p) : at(*b, p); });
        case CUDNN_POINTWISE_GEN_INDEX: {
            const bool row = rule.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS) == 2;
            return run([&](const Place& p) { return static_cast<double>(row ? p.t : p.d); });
        }
        default: return false;
    }
}

}  // namespace cohort::on_cpu
