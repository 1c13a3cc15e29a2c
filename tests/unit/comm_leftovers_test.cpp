// What killed jobs leave behind goes, what somebody uses stays.
#include "leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace cohort {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kMinute{60};

/// A folder in memory.
class Leftovers : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = "/dev/shm/cohort-test-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { fs::remove_all(folder_); }

    /// A segment of this user, two minutes old.
    fs::path segment(const std::string& job, const std::string& rank = "0") const {
        return old_file("vader_segment.a-host.my.domain." + std::to_string(::geteuid()) + "." +
                        job + "." + rank);
    }
    fs::path old_file(const std::string& name) const {
        fs::path path = folder_ / name;
        std::ofstream(path) << std::string(4096, 'x');
        age(path);
        return path;
    }
    static void age(const fs::path& path) {
        fs::last_write_time(path, fs::file_time_type::clock::now() - 2 * kMinute);
    }
    [[nodiscard]] std::size_t remove() const { return remove_unused_segments(folder_, kMinute); }

    fs::path folder_;
};

TEST_F(Leftovers, SegmentsOfNobodyGo) {
    const fs::path first = segment("6add0001");
    const fs::path second = segment("6add0001", "12");
    EXPECT_EQ(remove(), 2U);
    EXPECT_FALSE(fs::exists(first));
    EXPECT_FALSE(fs::exists(second));
}

TEST_F(Leftovers, SegmentsInUseStay) {
    const fs::path open = segment("1");
    const fs::path mapped = segment("2");
    const int descriptor = ::open(open.c_str(), O_RDONLY);
    const int mapping = ::open(mapped.c_str(), O_RDWR);
    void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapping, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ::close(mapping);
    EXPECT_EQ(remove(), 0U);
    ::munmap(memory, 4096);
    EXPECT_EQ(remove(), 1U);
    EXPECT_FALSE(fs::exists(mapped));
    ::close(descriptor);
    EXPECT_EQ(remove(), 1U);
}

TEST_F(Leftovers, OtherFilesStay) {
    const fs::path fresh = segment("3");
    fs::last_write_time(fresh, fs::file_time_type::clock::now());
    const fs::path link = folder_ / ("vader_segment.h." + std::to_string(::geteuid()) + ".4.0");
    fs::create_symlink(old_file("target"), link);
    for (const std::string& name :
         {"vader_segment.h." + std::to_string(::geteuid() + 1) + ".5.0",
          "vader_segment.h." + std::to_string(::geteuid()) + ".5.0.x", std::string("other")}) {
        (void)old_file(name);
    }
    EXPECT_EQ(remove(), 0U);
    EXPECT_EQ(remove_unused_segments(folder_, seconds(0)), 1U);
    EXPECT_FALSE(fs::exists(fresh));
}

TEST_F(Leftovers, OnlyInMemory) {
    struct statfs system {};
    if (::statfs(fs::temp_directory_path().c_str(), &system) != 0 || system.f_type == TMPFS_MAGIC) {
        GTEST_SKIP() << "temporary files are in memory here";
    }
    const fs::path path =
        fs::temp_directory_path() / segment(std::to_string(::getpid())).filename();
    std::ofstream(path) << "x";
    age(path);
    EXPECT_EQ(remove_unused_segments(path.parent_path(), kMinute), 0U);
    EXPECT_TRUE(fs::remove(path));
}

/// The number of a process that has ended.
pid_t ended_process() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return child;
}

TEST_F(Leftovers, SessionsOfEndedProcessesGo) {
    struct stat space {};
    if (::stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != 0xEFFFFFFC) {
        GTEST_SKIP() << "not all processes are seen here";
    }
    const auto session = [&](pid_t pid) {
        const std::string name = "pid." + std::to_string(pid);
        fs::create_directories(folder_ / name / "1");
        const fs::path file = old_file(name + "/1/store");
        age(folder_ / name);
        return file;
    };
    const fs::path own = session(::getpid());
    const fs::path ended = session(ended_process());
    const fs::path used = session(ended_process());
    const int descriptor = ::open(used.c_str(), O_RDONLY);
    EXPECT_EQ(remove_unused_sessions(folder_, 3 * kMinute), 0U);
    EXPECT_EQ(remove_unused_sessions(folder_, kMinute), 1U);
    EXPECT_FALSE(fs::exists(ended.parent_path().parent_path()));
    EXPECT_TRUE(fs::exists(own) && fs::exists(used));
    ::close(descriptor);
}

}  // namespace
}  // namespace cohort
