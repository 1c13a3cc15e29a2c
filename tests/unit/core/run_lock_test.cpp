#include "core/system/run_lock.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cohort/core/error.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

/// flock() belongs to open files: another one of this process stands for another process.
TEST(RunLock, DeletingTheLockFileLetsNobodyIn) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    RunLock lock(out);
    EXPECT_THROW(RunLock{out}, UsageError);
    std::filesystem::remove(out + "/run.lock");
    EXPECT_THROW(RunLock{out}, UsageError);
    EXPECT_FALSE(std::filesystem::exists(out + "/run.lock")) << "nor does a try leave anything";
    EXPECT_TRUE(lock.restore());
    EXPECT_TRUE(std::filesystem::exists(out + "/run.lock"));
    EXPECT_FALSE(lock.restore()) << "nothing is missing any more";
    EXPECT_EQ(run_lock_state(out).held, true);
}

TEST(RunLock, AFolderThatIsGoneIsMadeAnew) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    RunLock lock(out);
    std::filesystem::rename(out, folder.file("elsewhere"));
    EXPECT_TRUE(lock.restore());
    EXPECT_THROW(RunLock{out}, UsageError);
    const RunLock other(folder.file("elsewhere"));  // not this run's any more
}

TEST(RunLock, AnotherRunMayHaveTakenThePlace) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    RunLock lock(out);
    std::filesystem::rename(out, folder.file("elsewhere"));
    const RunLock other(out);
    EXPECT_THROW(lock.restore(), FileError);
}

}  // namespace
}  // namespace cohort
