// Products as cuBLASLt gets them, and the functions that the program takes from the libraries. No
// GPU is needed.
#include "layers/cuda/dnn/blas.hpp"

#include <gmock/gmock.h>

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/cuda_library.hpp"
#include "layers/cuda/dnn/dnn_api.hpp"
#include "layers/cuda/dnn/lstm_dnn.hpp"

namespace cohort::cuda {
namespace {

/// Small whole numbers: sums are exact.
std::vector<int> numbers(std::int64_t count, int seed) {
    std::vector<int> values;
    for (std::int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<int>((i * 7 + seed * 3) % 11) - 5);
    }
    return values;
}

/// op(m)[row, column], as a library with column-major matrices reads it.
int element(const std::vector<int>& memory, const ColumnMajor& m, std::int64_t row,
            std::int64_t column) {
    const std::int64_t r = m.transposed ? column : row;
    const std::int64_t c = m.transposed ? row : column;
    EXPECT_LT(r, m.rows);
    EXPECT_LT(c, m.columns);
    return memory.at(static_cast<std::size_t>(c * m.stride() + r));
}

class Transposes : public testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(Transposes, TheColumnMajorProductIsTheRowMajorOne) {
    const ProductShape shape{.rows = 3,
                             .columns = 4,
                             .depth = 5,
                             .transpose_a = GetParam().first,
                             .transpose_b = GetParam().second};
    const std::vector<int> a = numbers(shape.rows * shape.depth, 1);
    const std::vector<int> b = numbers(shape.depth * shape.columns, 2);
    const ColumnMajorProduct product = column_major(shape);
    ASSERT_EQ(product.result.rows, shape.columns);  // a bias has as many elements
    ASSERT_EQ(product.result.columns, shape.rows);
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        for (std::int64_t c = 0; c < shape.columns; ++c) {
            int wanted = 0;
            int found = 0;
            for (std::int64_t k = 0; k < shape.depth; ++k) {
                const std::int64_t in_a =
                    shape.transpose_a ? k * shape.rows + r : r * shape.depth + k;
                const std::int64_t in_b =
                    shape.transpose_b ? c * shape.depth + k : k * shape.columns + c;
                wanted += a[static_cast<std::size_t>(in_a)] * b[static_cast<std::size_t>(in_b)];
                found += element(b, product.first, c, k) * element(a, product.second, k, r);
            }
            EXPECT_EQ(found, wanted) << r << ", " << c;
            // The result's column r, row c is row-major [r, c].
            EXPECT_EQ(r * product.result.stride() + c, r * shape.columns + c);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Transposes,
                         testing::Values(std::pair{false, false}, std::pair{false, true},
                                         std::pair{true, false}, std::pair{true, true}));

TEST(ProductKey, DiffersWhereverTheChoiceMayDiffer) {
    const ProductShape shape{.rows = 128, .columns = 10, .depth = 512};
    std::set<std::string> keys{product_key(shape, Precision::kF32),
                               product_key(shape, Precision::kTf32)};
    const auto add = [&](auto&& change) {
        ProductShape other = shape;
        change(other);
        keys.insert(product_key(other, Precision::kF32));
    };
    add([](ProductShape& s) { s.rows = 64; });
    add([](ProductShape& s) { s.columns = 11; });
    add([](ProductShape& s) { s.depth = 256; });
    add([](ProductShape& s) { s.batch = 3; });
    add([](ProductShape& s) { s.transpose_a = true; });
    add([](ProductShape& s) { s.transpose_b = true; });
    add([](ProductShape& s) { s.in = ElementType::kBf16; });
    add([](ProductShape& s) { s.out = ElementType::kF16; });
    add([](ProductShape& s) { s.epilogue = Epilogue::kBias; });
    EXPECT_EQ(keys.size(), 11U);
}

/// Skips where cuBLASLt or cuDNN is missing; one that lacks a function is an error.
class Libraries : public testing::Test {
protected:
    void SetUp() override {
        try {
            static_cast<void>(blas());
            static_cast<void>(rnn_table());
        } catch (const DeviceError& missing) {
            if (std::string_view(missing.what()).find("cannot be loaded") ==
                std::string_view::npos) {
                throw;
            }
            GTEST_SKIP() << missing.what();
        }
    }
};
using PackedElements = Libraries;

/// Every pointer of a table is there; the loader has thrown otherwise.
TEST_F(Libraries, HaveTheFunctionsThatAreTaken) {
    EXPECT_NE(blas().matmul, nullptr);
    EXPECT_GE(blas().version(), std::size_t{120000});
    EXPECT_NE(rnn_table().forward, nullptr);
    EXPECT_STREQ(dnn().error_text(CUDNN_STATUS_SUCCESS), "CUDNN_STATUS_SUCCESS");
}

/// Attributes that the library does not know, or of another size, are refused.
TEST_F(Libraries, TakeTheDescriptionsOfAllProducts) {
    for (const Precision precision :
         {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16}) {
        for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias}) {
            const ProductShape shape{.rows = 128,
                                     .columns = 10,
                                     .depth = 512,
                                     .batch = epilogue == Epilogue::kNone ? 12 : 1,
                                     .transpose_b = true,
                                     .in = activation_type(precision),
                                     .out = activation_type(precision),
                                     .epilogue = epilogue};
            ProductDescription description(shape, precision, true);
            description.set_epilogue(Epilogue::kNone);
            EXPECT_NE(description.operation(), nullptr);
            EXPECT_NE(description.preference(), nullptr);
        }
    }
}

/// How an algorithm that splits the depth may add up the parts, as the library has noted it.
std::uint32_t reductions_of(ElementType in, ElementType out, bool deterministic) {
    static const Library library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"});
    decltype(&cublasLtMatmulPreferenceGetAttribute) get = nullptr;
    library.load(get, "cublasLtMatmulPreferenceGetAttribute");
    const ProductShape shape{.rows = 128, .columns = 10, .depth = 512, .in = in, .out = out};
    const ProductDescription description(shape, Precision::kBf16, deterministic);
    std::uint32_t schemes = ~0U;
    std::size_t written = 0;
    check_blas(get(description.preference(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                   sizeof schemes, &written),
               "cublasLtMatmulPreferenceGetAttribute");
    return schemes;
}

TEST_F(Libraries, PartsOfAProductAreNeverRoundedToShortTypes) {
    constexpr std::uint32_t kSingle = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (const ElementType type : {ElementType::kBf16, ElementType::kF16}) {
        EXPECT_EQ(reductions_of(type, type, false), kSingle);
        EXPECT_EQ(reductions_of(type, type, true), kSingle);
        // Of a weight's gradient the output is single precision already.
        EXPECT_EQ(reductions_of(type, ElementType::kF32, false),
                  std::uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK});
        EXPECT_EQ(reductions_of(type, ElementType::kF32, true),
                  kSingle | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    }
}

TEST_F(Libraries, TakeTheDescriptionOfAnLstm) {
    const RnnTable& table = rnn_table();
    const auto dropout = rnn_descriptor(table.dropout_create, table.dropout_destroy);
    for (const Precision precision :
         {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16}) {
        const LstmShape shape{
            .positions = 7, .features = 5, .hidden = 9, .type = activation_type(precision)};
        const auto network = rnn_descriptor(table.create, table.destroy);
        set_lstm_network(network.get(), shape, precision, dropout.get());
        const auto data = rnn_descriptor(table.data_create, table.data_destroy);
        set_lstm_data(data.get(), shape, 3, shape.features);
    }
}

TEST_F(PackedElements, CountATensorWithoutGaps) {
    const RnnTable& table = rnn_table();
    const auto tensor = rnn_descriptor(table.tensor_create, table.tensor_destroy);
    const std::array<int, 3> extents = {1, 9, 5};
    const std::array<int, 3> packed = {45, 5, 1};
    const std::array<int, 3> apart = {54, 6, 1};
    dnn_check(table.tensor_set(tensor.get(), CUDNN_DATA_HALF, 3, extents.data(), packed.data()),
              "cudnnSetTensorNdDescriptor");
    EXPECT_EQ(packed_elements(tensor.get()), 45);
    dnn_check(table.tensor_set(tensor.get(), CUDNN_DATA_HALF, 3, extents.data(), apart.data()),
              "cudnnSetTensorNdDescriptor");
    EXPECT_EQ(packed_elements(tensor.get()), -1);
}

TEST_F(Libraries, FailuresSayWhatWasAskedFor) {
    EXPECT_THAT([&] { check_blas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul"); },
                testing::ThrowsMessage<DeviceError>(testing::AllOf(
                    testing::HasSubstr("cublasLtMatmul"), testing::HasSubstr("NOT_SUPPORTED"))));
}

}  // namespace
}  // namespace cohort::cuda
