#include "layers/cuda/dnn/attention_graphs.hpp"

#include <array>
#include <utility>
#include <vector>

namespace cohort::cuda {
namespace {

using Extents = std::array<std::int64_t, 4>;

/// Tensors and operations of a graph, which refer to each other by number.
class Maker {
public:
    using Tensor = std::size_t;

    Maker(const DnnTarget& target, const AttentionProblem& problem)
        : target_(target), problem_(problem) {}

    /// A tensor in device memory.
    Tensor memory(std::int64_t uid, const Extents& dims, const Extents& strides,
                  cudnnDataType_t type) {
        places_.push_back(uid);
        return tensor(uid, dims, strides, type, false, false);
    }
    /// A number in host memory.
    Tensor scalar(std::int64_t uid) {
        places_.push_back(uid);
        return tensor(uid, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true);
    }
    /// One of the graph alone, without gaps.
    Tensor inner(const Extents& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
        const auto [n, h, t, d] = dims;
        static_cast<void>(n);
        return tensor(next_++, dims, {h * t * d, t * d, d, 1}, type, true, false);
    }
    /// A number for every query and key.
    Tensor square(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
        return inner({problem_.samples, problem_.heads, problem_.positions, problem_.positions},
                     type);
    }
    /// A number for every query.
    Tensor column() { return inner({problem_.samples, problem_.heads, problem_.positions, 1}); }

    Tensor multiply(Tensor a, Tensor b, Tensor c) {
        DnnDescriptor rule(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
        rule.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
        rule.finalize("cuDNN product");
        DnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, parts_[a]);
        operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, parts_[b]);
        operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, parts_[c]);
        operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, rule);
        add(std::move(operation), std::move(rule), "cuDNN operation of a product");
        return c;
    }
    Tensor reduce(cudnnReduceTensorOp_t what, Tensor x, Tensor y) {
        DnnDescriptor rule(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
        rule.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
        rule.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &what);
        rule.finalize("cuDNN reduction");
        DnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, parts_[x]);
        operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, parts_[y]);
        operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, rule);
        add(std::move(operation), std::move(rule), "cuDNN operation of a reduction");
        return y;
    }
    /// y = f(x)
    Tensor map(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
        return pointwise(mode, {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                                {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
    }
    /// y = f(x, b), of smaller extents repeated.
    Tensor map(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
               cudnnDataType_t type = CUDNN_DATA_FLOAT) {
        return pointwise(mode,
                         {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                          {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                          {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}},
                         type);
    }
    /// y = mask ? x : b
    Tensor select(Tensor x, Tensor b, Tensor mask, Tensor y) {
        return pointwise(CUDNN_POINTWISE_BINARY_SELECT,
                         {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                          {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                          {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask},
                          {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
    }
    /// y[...] = the number of the element along the axis
    Tensor index(std::int64_t axis, Tensor x, Tensor y) {
        return pointwise(
            CUDNN_POINTWISE_GEN_INDEX,
            {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}},
            CUDNN_DATA_INT32, axis);
    }
    /// The last two extents change places.
    Tensor transpose(Tensor x, const Extents& dims, const Extents& strides, cudnnDataType_t type) {
        const Tensor y = tensor(next_++, dims, strides, type, true, false);
        DnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, parts_[x]);
        operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, parts_[y]);
        operation.finalize("cuDNN operation of a transposition");
        operations_.push_back(std::move(operation));
        return y;
    }

    std::shared_ptr<const DnnGraph> finish() {
        return std::make_shared<const DnnGraph>(target_, std::move(places_), std::move(parts_),
                                                std::move(operations_));
    }

private:
    struct Operand {
        DnnDescriptor::Name name;
        Tensor tensor;
    };

    Tensor tensor(std::int64_t uid, const Extents& dims, const Extents& strides,
                  cudnnDataType_t type, bool is_virtual, bool by_value) {
        constexpr std::int64_t kAlignment = 16;
        DnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
        made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
        made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(dims));
        made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span(strides));
        made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
        if (is_virtual) {
            made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
        }
        if (by_value) {
            made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
        }
        made.finalize("cuDNN tensor");
        parts_.push_back(std::move(made));
        return parts_.size() - 1;
    }

    /// @return the last operand
    Tensor pointwise(cudnnPointwiseMode_t mode, const std::vector<Operand>& operands,
                     cudnnDataType_t type = CUDNN_DATA_FLOAT, std::int64_t axis = -1) {
        DnnDescriptor rule(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        rule.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
        rule.set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
        if (axis >= 0) {
            rule.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
        }
        rule.finalize("cuDNN pointwise");
        DnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, rule);
        for (const Operand& operand : operands) {
            operation.set(operand.name, parts_[operand.tensor]);
        }
        add(std::move(operation), std::move(rule), "cuDNN pointwise operation");
        return operands.back().tensor;
    }

    void add(DnnDescriptor operation, DnnDescriptor rule, const char* what) {
        operation.finalize(what);
        parts_.push_back(std::move(rule));
        operations_.push_back(std::move(operation));
    }

    const DnnTarget& target_;
    const AttentionProblem& problem_;
    std::int64_t next_ = 100;  ///< number of the next tensor of the graph alone
    std::vector<std::int64_t> places_;
    std::vector<DnnDescriptor> parts_;
    std::vector<DnnDescriptor> operations_;
};

/// [samples, heads, positions, width] within rows of `row` elements, or its last two transposed.
struct HeadTensor {
    Extents dims;
    Extents strides;
};
HeadTensor heads_in(const AttentionProblem& p, std::int64_t row) {
    return {{p.samples, p.heads, p.positions, p.width}, {p.positions * row, p.width, row, 1}};
}
HeadTensor transposed(const HeadTensor& tensor) {
    const auto [n, h, t, d] = tensor.dims;
    const auto [of_n, of_h, of_t, of_d] = tensor.strides;
    return {{n, h, d, t}, {of_n, of_h, of_d, of_t}};
}

/// Tensors that both directions read, and how they make scores.
class AttentionParts {
public:
    AttentionParts(const DnnTarget& target, const AttentionProblem& problem)
        : make(target, problem), p(problem), type(dnn_type(problem.type)) {}

    Maker::Tensor part(std::int64_t uid, std::int64_t row) {
        const HeadTensor tensor = heads_in(p, row);
        return make.memory(uid, tensor.dims, tensor.strides, type);
    }
    Maker::Tensor part_transposed(std::int64_t uid, std::int64_t row) {
        const HeadTensor tensor = transposed(heads_in(p, row));
        return make.memory(uid, tensor.dims, tensor.strides, type);
    }
    Maker::Tensor statistics(std::int64_t uid) {
        return make.memory(uid, {p.samples, p.heads, p.positions, 1},
                           {p.heads * p.positions, p.positions, 1, 1}, CUDNN_DATA_FLOAT);
    }
    Maker::Tensor masked(Maker::Tensor scores) {
        if (!p.causal) {
            return scores;
        }
        const auto query = make.index(2, scores, make.square(CUDNN_DATA_INT32));
        const auto key = make.index(3, scores, make.square(CUDNN_DATA_INT32));
        const auto seen = make.map(CUDNN_POINTWISE_CMP_GE, query, key,
                                   make.square(CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
        return make.select(scores, make.scalar(kUnseen), seen, make.square());
    }
    /// Of a number for every query and key; in the type of the operands of products.
    Maker::Tensor transposed_square(Maker::Tensor x) {
        const std::int64_t t = p.positions;
        return make.transpose(x, {p.samples, p.heads, t, t}, {p.heads * t * t, t * t, 1, t}, type);
    }

    Maker make;
    const AttentionProblem& p;
    cudnnDataType_t type;
};

}  // namespace

std::string problem_text(const AttentionProblem& p) {
    return "attention n" + std::to_string(p.samples) + " t" + std::to_string(p.positions) + " h" +
           std::to_string(p.heads) + " d" + std::to_string(p.width) +
           (p.causal ? " causal " : " ") + std::string(word_of(p.type));
}

std::shared_ptr<const DnnGraph> attention_forward_graph(const DnnTarget& target,
                                                        const AttentionProblem& p) {
    AttentionParts parts(target, p);
    Maker& make = parts.make;
    const std::int64_t row = 3 * p.features();
    const auto queries = parts.part(kQueries, row);
    const auto keys = parts.part_transposed(kKeys, row);
    const auto values = parts.part(kValues, row);
    const auto output = parts.part(kAttended, p.features());
    auto scores = make.multiply(queries, keys, make.square());
    scores = make.map(CUDNN_POINTWISE_MUL, scores, make.scalar(kScale), make.square());
    scores = parts.masked(scores);
    const auto largest = make.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, make.column());
    const auto lower = make.map(CUDNN_POINTWISE_SUB, scores, largest, make.square());
    const auto exponentials = make.map(CUDNN_POINTWISE_EXP, lower, make.square());
    const auto sum = make.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, make.column());
    const auto logarithm = make.map(CUDNN_POINTWISE_LOG, sum, make.column());
    make.map(CUDNN_POINTWISE_ADD, largest, logarithm, parts.statistics(kDivisors));
    const auto probabilities =
        make.map(CUDNN_POINTWISE_DIV, exponentials, sum, make.square(parts.type));
    make.multiply(probabilities, values, output);
    return make.finish();
}

std::shared_ptr<const DnnGraph> attention_backward_graph(const DnnTarget& target,
                                                         const AttentionProblem& p, bool summed) {
    AttentionParts parts(target, p);
    Maker& make = parts.make;
    const std::int64_t row = 3 * p.features();
    const auto queries = parts.part(kQueries, row);
    const auto keys = parts.part_transposed(kKeys, row);
    const auto values = parts.part_transposed(kValues, row);
    const auto output = parts.part(kAttended, p.features());
    const auto gradient = parts.part(kAttendedGradient, p.features());
    const auto divisors = parts.statistics(kDivisors);
    const auto scale = make.scalar(kScale);

    // Of every query the sum of p dp is that of output and gradient.
    const Extents of_heads{p.samples, p.heads, p.positions, p.width};
    const auto products = make.map(CUDNN_POINTWISE_MUL, gradient, output, make.inner(of_heads));
    auto sums = make.reduce(CUDNN_REDUCE_TENSOR_ADD, products, make.column());
    sums = make.map(CUDNN_POINTWISE_MUL, sums, make.scalar(kUnchanged),
                    parts.statistics(kGradientSums));

    auto scores = make.multiply(queries, keys, make.square());
    scores = make.map(CUDNN_POINTWISE_MUL, scores, scale, make.square());
    scores = make.map(CUDNN_POINTWISE_SUB, scores, divisors, make.square());
    const auto probabilities = make.map(CUDNN_POINTWISE_EXP, parts.masked(scores), make.square());
    make.multiply(parts.transposed_square(probabilities), gradient,
                  parts.part(kValuesGradient, row));

    auto slopes = make.multiply(gradient, values, make.square());
    slopes = make.map(CUDNN_POINTWISE_SUB, slopes, sums, make.square());
    slopes = make.map(CUDNN_POINTWISE_MUL, slopes, probabilities, make.square());
    // In the type of a product's operand.
    slopes = make.map(CUDNN_POINTWISE_MUL, slopes, scale, make.square(parts.type));
    make.multiply(parts.transposed_square(slopes), queries, parts.part(kKeysGradient, row));

    const HeadTensor plain = heads_in(p, row);
    const auto keys_again = make.transpose(keys, plain.dims, plain.strides, parts.type);
    const auto queries_gradient = parts.part(kQueriesGradient, row);
    if (summed) {
        const std::int64_t matrix = p.positions * p.width;
        const auto queries_sums = make.memory(
            kQueriesSums, of_heads, {p.heads * matrix, matrix, p.width, 1}, CUDNN_DATA_FLOAT);
        make.multiply(slopes, keys_again, queries_sums);
        make.map(CUDNN_POINTWISE_IDENTITY, queries_sums, queries_gradient);
    } else {
        make.multiply(slopes, keys_again, queries_gradient);
    }
    return make.finish();
}

}  // namespace cohort::cuda
