#include "cohort/core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ErrorMessage, JoinsAllPartsInOneForm) {
    EXPECT_EQ(error_message({.where = "train.h5",
                             .what = "data set is missing",
                             .expected = "/train/labels",
                             .got = "/train/samples only",
                             .hint = "cohort import"}),
              "[train.h5] data set is missing; expected /train/labels, got /train/samples only; "
              "try cohort import");
}

TEST(ErrorMessage, LeavesOutEmptyParts) {
    EXPECT_EQ(error_message({.what = "no memory"}), "no memory");
    EXPECT_EQ(error_message({.where = "arena", .what = "no memory"}), "[arena] no memory");
    EXPECT_EQ(error_message({.what = "bad rank", .expected = "4"}), "bad rank; expected 4");
    EXPECT_EQ(error_message({.what = "bad rank", .got = "5"}), "bad rank; got 5");
    EXPECT_EQ(error_message({.what = "bad rank", .hint = "4"}), "bad rank; try 4");
}

template <class E>
ExitCode code_of_failure() {
    try {
        fail<E>({.where = "here", .what = "it broke"});
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "[here] it broke");
        return error.exit_code();
    }
}

TEST(Fail, ThrowsTheTypeWithItsDocumentedExitCode) {
    EXPECT_EQ(static_cast<int>(code_of_failure<UsageError>()), 2);
    EXPECT_EQ(static_cast<int>(code_of_failure<ShapeError>()), 2);
    EXPECT_EQ(static_cast<int>(code_of_failure<FileError>()), 3);
    EXPECT_EQ(static_cast<int>(code_of_failure<PeerError>()), 4);
    EXPECT_EQ(static_cast<int>(code_of_failure<DeviceError>()), 5);
    EXPECT_EQ(static_cast<int>(code_of_failure<NumericalError>()), 6);
    EXPECT_THROW(fail<FileError>({.what = "x"}), FileError);
}

TEST(CheckInvariant, IsSilentWhileItHolds) {
    EXPECT_NO_THROW(check_invariant(true, "one plus one is two"));
}

TEST(CheckInvariant, NamesTheFactAndThePlace) {
    EXPECT_THAT([&] { check_invariant(false, "ranges do not overlap"); },
                ThrowsMessage<std::logic_error>(
                    AllOf(HasSubstr("ranges do not overlap"), HasSubstr("error_test.cpp"))));
}

}  // namespace
}  // namespace cohort
