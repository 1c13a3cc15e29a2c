#include "data/hdf5/child_trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"

namespace cohort {
namespace {

std::string refusal(const std::function<void()>& action) {
    return test::message_of<FileError>([&] { try_in_child("a.h5", action); });
}

TEST(ChildTrial, WhatEndsByItselfIsFine) {
    bool here = false;
    EXPECT_EQ(refusal([&] { here = true; }), "");
    EXPECT_FALSE(here) << "it ran elsewhere";
    EXPECT_EQ(refusal([] { throw std::runtime_error("told by the second time"); }), "");
}

TEST(ChildTrial, ACrashIsAnErrorThatNamesTheFile) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGXCPU}) {
        EXPECT_THAT(refusal([signal] { std::raise(signal); }),
                    testing::AllOf(testing::HasSubstr("[a.h5] the file is damaged"),
                                   testing::HasSubstr("in a trial")));
    }
}

/// By somebody else, or by its own clock: a slow file system is no damage.
TEST(ChildTrial, AnEndFromOutsideShowsNothing) {
    for (const int signal : {SIGKILL, SIGALRM}) {
        EXPECT_EQ(refusal([signal] { std::raise(signal); }), "");
    }
}

}  // namespace
}  // namespace cohort
