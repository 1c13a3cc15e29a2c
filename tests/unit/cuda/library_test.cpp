// Libraries that are opened when they are needed: NCCL's functions are all there under their names,
// and what is missing is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "comm/allreduce/nccl/nccl_table.hpp"
#include "core/tensor/cuda_library.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CudaLibrary, NamesWhatIsMissing) {
    EXPECT_THAT(
        [&] {
            const cuda::Library library("cuNone 9", {"libcunone.so.9", "libcunone.so"});
        },
        ThrowsMessage<DeviceError>(AllOf(HasSubstr("cuNone 9"), HasSubstr("libcunone.so.9"),
                                         HasSubstr("LD_LIBRARY_PATH"))));
    const cuda::Library library("C", {"libnothing.so", "libm.so.6"});
    EXPECT_NE(library.symbol("cos"), nullptr);
    EXPECT_THAT([&] { static_cast<void>(library.symbol("cosinus")); },
                ThrowsMessage<DeviceError>(HasSubstr("cosinus")));
}

TEST(Nccl, HasEveryFunctionThatIsUsed) {
    try {
        const NcclTable table = load_nccl();
        EXPECT_NE(table.all_reduce, nullptr);
        EXPECT_NE(table.register_buffer, nullptr);
        EXPECT_NE(table.free, nullptr);
        EXPECT_STREQ(table.get_error_string(ncclSuccess), "no error");
    } catch (const DeviceError& error) {
        ASSERT_THAT(error.what(), HasSubstr("cannot be loaded")) << "NCCL is there";
        GTEST_SKIP() << error.what();
    }
}

}  // namespace
}  // namespace cohort
