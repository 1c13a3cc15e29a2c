// What killed jobs leave behind goes, what somebody uses stays.
#include "comm/base/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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

    /// A segment of this user, two minutes old; `kind` as Open MPI 4 names it, or sm as 5 does.
    fs::path segment(const std::string& job, const std::string& rank = "0",
                     const std::string& kind = "vader") const {
        return old_file(kind + "_segment.a-host.my.domain." + std::to_string(::geteuid()) + "." +
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
    const fs::path second = segment("52530001", "12", "sm");
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

TEST_F(Leftovers, SessionsOfNobodyGo) {
    const std::string user = std::to_string(::geteuid());
    const auto session = [&](const std::string& name, const std::string& file) {
        fs::create_directories(folder_ / name / "1");
        (void)old_file(name + "/1/store");
        fs::path path = old_file(name + "/" + file);
        age(path.parent_path());
        return path;
    };
    const std::string host = "ompi.a-host." + user + "/";
    const std::vector<fs::path> ended = {session(host + "pid.7", "hwloc.sm"),
                                         session(host + "jf.41544", "hwloc.sm"),
                                         session("prterun.a-host.7." + user, "hwloc.sm"),
                                         session("prted.a-host.8." + user, "hwloc.sm")};
    const fs::path used = session(host + "pid.8", "hwloc.sm");
    const std::vector<fs::path> kept = {used, session(host + "pid.9", "other"),
                                        session("prterun.a-host.9.x" + user, "hwloc.sm")};
    const int descriptor = ::open(used.c_str(), O_RDWR);
    EXPECT_EQ(remove_unused_sessions(folder_, 3 * kMinute), 0U);
    EXPECT_EQ(remove_unused_sessions(folder_, kMinute), ended.size());
    for (const fs::path& path : ended) {
        EXPECT_FALSE(fs::exists(path.parent_path())) << path;
    }
    for (const fs::path& path : kept) {
        EXPECT_TRUE(fs::exists(path)) << path;
    }
    ::close(descriptor);
}

}  // namespace
}  // namespace cohort
