#include "core/system/run_lock.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>

#include "cohort/core/error.hpp"
#include "support/core/child_process.hpp"
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

TEST(RunLock, EndsBeforeTheProcessesThatWereForkedMeanwhile) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    std::optional<RunLock> lock(out);
    const IdleChild child;
    EXPECT_EQ(run_lock_state(out).held, true);
    lock.reset();
    EXPECT_EQ(run_lock_state(out).held, false);
    const RunLock next(out);
}

/// As a rank that is killed while its loader's workers live.
TEST(RunLock, EndsWithItsProcessThoughOneForkedFromThatLivesOn) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    EXPECT_TRUE(in_child([&] {
        const RunLock lock(out);
        const pid_t worker = ::fork();
        if (worker == 0) {
            const pid_t self = ::getpid();  // told when the forked process is its own
            static_cast<void>(::write(pipe[1], &self, sizeof self));
            for (;;) {
                ::pause();
            }
        }
        pid_t told = 0;
        if (worker < 0 || ::read(pipe[0], &told, sizeof told) != sizeof told) {
            return false;
        }
        static_cast<void>(::write(pipe[1], &told, sizeof told));
        ::_exit(0);
    }));
    pid_t worker = 0;
    ASSERT_EQ(::read(pipe[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
    EXPECT_EQ(::kill(worker, 0), 0) << "it lives";
    EXPECT_EQ(run_lock_state(out).held, false);
    ::kill(worker, SIGKILL);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

/// The forked process ends with all of its destructors, as one of Python's does.
TEST(RunLock, IsNotEndedByAForkedProcess) {
    const TempFolder folder;
    const std::string out = folder.file("out");
    std::optional<RunLock> lock(out);
    EXPECT_TRUE(in_child([&] {
        lock.reset();
        return run_lock_state(out).held == true;
    }));
    EXPECT_EQ(run_lock_state(out).held, true);
    EXPECT_FALSE(lock->restore()) << "folder and file are as they were";
}

}  // namespace
}  // namespace cohort
