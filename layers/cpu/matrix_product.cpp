// In bfloat16 the operands are copied, rounded and without gaps, and multiplied by oneDNN's matmul,
// whose primitives every thread keeps by their shapes; a processor without such products widens
// them again (ReplicaOptions::bf16_anywhere).
#include "layers/cpu/matrix_product.hpp"

#include <array>
#include <map>
#include <vector>

#include "core/bf16.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/dnnl_version.hpp"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;

/// What a primitive is made for.
struct Problem {
    bool transposed_a;
    bool transposed_b;
    bool adds;
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    std::int64_t ldc;
    friend auto operator<=>(const Problem&, const Problem&) = default;
};

struct Product {
    dnnl::matmul primitive;
    Desc a;
    Desc b;
    Desc c;
    Desc scratch;
};

Desc operand(std::int64_t rows, std::int64_t columns, bool transposed) {
    return {{rows, columns},
            dnnl::memory::data_type::bf16,
            transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
}

Product make(const Problem& p) {
    dnnl::primitive_attr attributes = user_scratchpad();
    if (p.adds) {
        dnnl::post_ops sum;
        sum.append_sum(1.0F);
        attributes.set_post_ops(sum);
    }
    Product made{.a = operand(p.m, p.k, p.transposed_a),
                 .b = operand(p.k, p.n, p.transposed_b),
                 .c = {{p.m, p.n}, dnnl::memory::data_type::f32, dnnl::memory::dims{p.ldc, 1}}};
    const auto desc = describe_matmul(made.a, made.b, made.c, attributes);
    require_code_memory();
    made.primitive = dnnl::matmul(desc);
    made.scratch = desc.scratchpad_desc();
    return made;
}

const Product& product_of(const Problem& problem) {
    thread_local std::map<Problem, Product> made;
    auto found = made.find(problem);
    if (found == made.end()) {
        found = made.emplace(problem, make(problem)).first;
    }
    return found->second;
}

/// Rounded rows [rows, columns] without gaps.
const std::uint16_t* rounded(const float* from, std::int64_t rows, std::int64_t columns,
                             std::int64_t stride, std::vector<std::uint16_t>& to) {
    to.resize(static_cast<std::size_t>(rows * columns));
    if (stride == columns) {
        narrow_to_bf16({from, to.size()}, to.data());
        return to.data();
    }
    for (std::int64_t row = 0; row < rows; ++row) {
        narrow_to_bf16({from + row * stride, static_cast<std::size_t>(columns)},
                       to.data() + row * columns);
    }
    return to.data();
}

const float* widened(const std::vector<std::uint16_t>& from, std::vector<float>& to) {
    to.resize(from.size());
    widen_bf16(from.data(), to);
    return to.data();
}

}  // namespace

void MatrixProduct::operator()(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
                               std::int64_t k, const float* a, std::int64_t lda, const float* b,
                               std::int64_t ldb, float beta, float* c, std::int64_t ldc) const {
    if (!short_) {
        sgemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    thread_local std::array<std::vector<std::uint16_t>, 2> operands;
    thread_local std::vector<std::byte> scratch;
    const bool turned_a = transpose_a == 'T';
    const bool turned_b = transpose_b == 'T';
    const std::uint16_t* short_a = rounded(a, turned_a ? k : m, turned_a ? m : k, lda, operands[0]);
    const std::uint16_t* short_b = rounded(b, turned_b ? n : k, turned_b ? k : n, ldb, operands[1]);
    if (!has_bf16_products()) {
        thread_local std::array<std::vector<float>, 2> wide;
        sgemm(transpose_a, transpose_b, m, n, k, widened(operands[0], wide[0]), turned_a ? m : k,
              widened(operands[1], wide[1]), turned_b ? k : n, beta, c, ldc);
        return;
    }
    dnnl_checked("matrix product", [&] {
        const Problem problem{.transposed_a = turned_a,
                              .transposed_b = turned_b,
                              .adds = beta != 0.0F,
                              .m = m,
                              .n = n,
                              .k = k,
                              .ldc = ldc};
        const Product& product = product_of(problem);
        scratch.resize(product.scratch.get_size());
        execute("matrix product", product.primitive,
                {{DNNL_ARG_SRC, wrap(product.a, short_a)},
                 {DNNL_ARG_WEIGHTS, wrap(product.b, short_b)},
                 {DNNL_ARG_DST, wrap(product.c, c)},
                 {DNNL_ARG_SCRATCHPAD, wrap(product.scratch, scratch.data())}});
    });
}

}  // namespace cohort
