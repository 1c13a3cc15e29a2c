#include "data/hdf5/store.hpp"
#include "cohort/core/error.hpp"

#include "support/core/child_process.hpp"
#include "support/core/file_bytes.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::read_bytes;
using test::write_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

const StoreFormat kFormat{"test-store", 3};

class StoreTest : public ::testing::Test {
protected:
    void write_small(const std::string& path, float first = 1.0F) {
        StoreWriter writer(path, kFormat, thread_);
        writer.put("/parameters/conv.weight", std::vector<float>{first, 2, 3, 4, 5, 6},
                   std::vector<std::int64_t>{2, 3});
        writer.put("/parameters/conv.bias", std::vector<double>{0.5, -0.25});
        writer.set("/", "step", std::int64_t{-7});
        writer.commit();
    }
    std::string file(const std::string& name) const { return folder_.file(name); }
    std::size_t files_in_folder() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}));
    }

    TempFolder folder_;
    Hdf5Thread thread_;
};

TEST_F(StoreTest, GivesBackEverything) {
    std::vector<float> large(3'000'001);  // several slices and an odd rest
    std::iota(large.begin(), large.end(), 0.0F);
    const std::vector<std::uint64_t> words{0, ~std::uint64_t{0}, 42};
    const std::vector<std::byte> bytes{std::byte{0}, std::byte{255}, std::byte{7}};
    {
        StoreWriter writer(file("a.h5"), kFormat, thread_);
        writer.put("/parameters/large", large);
        writer.put("/state/words", words);
        writer.put("/state/signed", std::vector<std::int64_t>{-1, 0, 1});
        writer.put("/state/empty", std::vector<float>{});
        writer.put("/state/double", std::vector<double>{1e300});
        writer.put("/bytes", bytes);
        writer.set("/", "text", std::string("hello"));
        writer.set("/", "long", std::string(200'000, 'x'));
        writer.set("/state", "real", 0.1);
        writer.set("/state", "count", ~std::uint64_t{0});
        writer.set("/made/by/set", "integer", std::int64_t{-3});
        writer.set("/state/words", "note", std::string(""));
        writer.set("/state", "real", 0.2);  // replaces
        writer.commit();
    }
    EXPECT_EQ(files_in_folder(), 1U) << "no temporary file is left";
    const StoreReader reader(file("a.h5"), thread_);
    EXPECT_EQ(reader.format(), kFormat);
    EXPECT_EQ(reader.names(),
              (std::vector<std::string>{"/bytes", "/parameters/large", "/state/double",
                                        "/state/empty", "/state/signed", "/state/words"}));
    EXPECT_TRUE(reader.contains("/bytes"));
    EXPECT_FALSE(reader.contains("/state"));
    EXPECT_EQ(reader.get<float>("/parameters/large"), large);
    EXPECT_EQ(reader.get<std::uint64_t>("/state/words"), words);
    EXPECT_EQ(reader.get<std::int64_t>("/state/signed"), (std::vector<std::int64_t>{-1, 0, 1}));
    EXPECT_TRUE(reader.get<float>("/state/empty").empty());
    EXPECT_EQ(reader.get<double>("/state/double"), std::vector<double>{1e300});
    EXPECT_EQ(reader.get<std::byte>("/bytes"), bytes);
    EXPECT_EQ(reader.attribute<std::string>("/", "text"), "hello");
    EXPECT_EQ(reader.attribute<std::string>("/", "long"), std::string(200'000, 'x'));
    EXPECT_EQ(reader.attribute<double>("/state", "real"), 0.2);
    EXPECT_EQ(reader.attribute<std::uint64_t>("/state", "count"), ~std::uint64_t{0});
    EXPECT_EQ(reader.attribute<std::int64_t>("/made/by/set", "integer"), -3);
    EXPECT_EQ(reader.attribute<std::string>("/state/words", "note"), "");
    EXPECT_TRUE(reader.has_attribute("/state", "real"));
    EXPECT_FALSE(reader.has_attribute("/state", "other"));
    EXPECT_FALSE(reader.has_attribute("/elsewhere", "real"));
}

TEST_F(StoreTest, KeepsShapes) {
    write_small(file("a.h5"));
    const StoreReader reader(file("a.h5"), thread_);
    EXPECT_EQ(reader.shape("/parameters/conv.weight"), (std::vector<std::int64_t>{2, 3}));
    std::vector<float> values(6);
    reader.read_into("/parameters/conv.weight", std::span<float>(values));
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(StoreTest, NamesWhatIsMissingOrDifferent) {
    write_small(file("a.h5"));
    const StoreReader reader(file("a.h5"), thread_);
    EXPECT_THAT(message_of<FileError>([&] { (void)reader.get<float>("/nothing"); }),
                HasSubstr("/nothing"));
    EXPECT_THAT(message_of<FileError>([&] { (void)reader.get<float>("/parameters/conv.bias"); }),
                AllOf(HasSubstr("conv.bias"), HasSubstr("float32"), HasSubstr("float64")));
    std::vector<float> five(5);
    EXPECT_THAT(message_of<FileError>(
                    [&] { reader.read_into("/parameters/conv.weight", std::span<float>(five)); }),
                AllOf(HasSubstr("expected 5"), HasSubstr("6 of shape [2,3]")));
    EXPECT_THAT(message_of<FileError>([&] { (void)reader.attribute<double>("/", "absent"); }),
                AllOf(HasSubstr("a.h5"), HasSubstr("absent")));
    EXPECT_THAT(message_of<FileError>([&] { (void)reader.attribute<std::string>("/", "step"); }),
                AllOf(HasSubstr("step"), HasSubstr("expected text"), HasSubstr("int64")));
    EXPECT_THAT(message_of<FileError>([&] {
                    reader.require_format({"test-store", 4});
                }),
                AllOf(HasSubstr("test-store version 4"), HasSubstr("test-store version 3")));
    EXPECT_NO_THROW(reader.require_format(kFormat));
}

TEST_F(StoreTest, RefusesWrongUse) {
    StoreWriter writer(file("a.h5"), kFormat, thread_);
    const std::vector<float> three(3);
    writer.put("/x", three);
    EXPECT_THROW(writer.put("/x", three), UsageError);
    EXPECT_THROW(writer.put("x", three), UsageError);
    EXPECT_THROW(writer.put("/y/", three), UsageError);
    EXPECT_THROW(writer.put("/y//z", three), UsageError);
    EXPECT_THROW(writer.put("/y", three, std::vector<std::int64_t>{2, 2}), ShapeError);
}

TEST_F(StoreTest, AppearsOnlyByCommit) {
    write_small(file("a.h5"), 1.0F);
    {
        StoreWriter writer(file("a.h5"), kFormat, thread_);
        writer.put("/parameters/conv.weight", std::vector<float>{9});
    }
    EXPECT_EQ(files_in_folder(), 1U);
    EXPECT_EQ(StoreReader(file("a.h5"), thread_).get<float>("/parameters/conv.weight").size(), 6U);
    write_small(file("a.h5"), 8.0F);
    EXPECT_EQ(StoreReader(file("a.h5"), thread_).get<float>("/parameters/conv.weight")[0], 8.0F);
}

TEST_F(StoreTest, IsReadThoughAProcessForkedMeanwhileLives) {
    StoreWriter writer(file("a.h5"), kFormat, thread_);
    writer.put("/words", std::vector<std::uint64_t>{1, 2});
    const IdleChild child;
    writer.commit();
    EXPECT_THAT(StoreReader(file("a.h5"), thread_).get<std::uint64_t>("/words"),
                ::testing::ElementsAre(1, 2));
}

TEST_F(StoreTest, RefusesEveryTruncation) {
    write_small(file("a.h5"));
    const std::string whole = read_bytes(file("a.h5"));
    write_bytes(file("torn.h5"), whole);
    for (std::size_t length = whole.size() - 1; length > 0;
         length -= std::min<std::size_t>(length, length < 600 ? 1 : 37)) {
        fs::resize_file(file("torn.h5"), length);
        const std::string error =
            message_of<FileError>([&] { StoreReader(file("torn.h5"), thread_); });
        ASSERT_THAT(error, HasSubstr("torn.h5")) << length;
        if (length >= 512) {
            ASSERT_THAT(error,
                        AllOf(HasSubstr("truncated"), HasSubstr(std::to_string(whole.size()))));
        }
    }
    std::string grown = whole;
    grown.push_back('\0');
    write_bytes(file("torn.h5"), grown);
    EXPECT_THAT(message_of<FileError>([&] { StoreReader(file("torn.h5"), thread_); }),
                HasSubstr("grown"));
}

TEST_F(StoreTest, RefusesEveryFlippedBit) {
    write_small(file("a.h5"));
    const std::string whole = read_bytes(file("a.h5"));
    write_bytes(file("flipped.h5"), whole);
    std::fstream flipped(file("flipped.h5"), std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, int byte) {
        flipped.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
    };
    for (std::size_t at = 0; at < whole.size(); at += at < 600 ? 1 : 13) {
        put(at, whole[at] ^ (1 << (at % 8)));
        ASSERT_THAT(message_of<FileError>([&] { StoreReader(file("flipped.h5"), thread_); }),
                    HasSubstr("flipped.h5"))
            << at;
        put(at, whole[at]);
    }
    EXPECT_NO_THROW(StoreReader(file("flipped.h5"), thread_)) << "all bytes as they were";
}

TEST_F(StoreTest, SaysWhyAFileIsNoStore) {
    const auto reason = [&](const std::string& path) {
        return message_of<FileError>([&] { StoreReader(path, thread_); });
    };
    EXPECT_THAT(reason(file("absent.h5")), HasSubstr("No such file"));
    EXPECT_THAT(reason(folder_.path()), HasSubstr("folder"));
    write_bytes(file("empty.h5"), {});
    EXPECT_THAT(reason(file("empty.h5")), HasSubstr("an empty file"));
    write_bytes(file("text.h5"), std::string(1000, 'x'));
    EXPECT_THAT(reason(file("text.h5")), HasSubstr("not a cohort store"));
    write_small(file("a.h5"));
    std::string newer = read_bytes(file("a.h5"));
    newer[13] = '2';
    write_bytes(file("newer.h5"), newer);
    EXPECT_THAT(reason(file("newer.h5")),
                AllOf(HasSubstr("another version"), HasSubstr("expected 1, got 2")));
}

TEST_F(StoreTest, NamesAMissingFolder) {
    EXPECT_THAT(message_of<FileError>([&] { StoreWriter(file("none/a.h5"), kFormat, thread_); }),
                AllOf(HasSubstr("none/a.h5"), HasSubstr("No such file or directory")));
    EXPECT_THAT(message_of<FileError>([&] { StoreWriter(folder_.path(), kFormat, thread_); }),
                HasSubstr("an existing folder"));
}

// These run without the fixture: a child process must make its own HDF5 thread.
TEST(StoreFailureTest, ReadOnlyFolderIsAnError) {
    const TempFolder folder;
    ::chmod(folder.path().c_str(), 0555);
    EXPECT_TRUE(in_child([&] {
        if (!become_nobody()) {
            return false;
        }
        Hdf5Thread thread;
        const std::string error =
            message_of<FileError>([&] { StoreWriter(folder.file("a.h5"), kFormat, thread); });
        return error.find("Permission denied") != std::string::npos &&
               error.find(folder.path()) != std::string::npos;
    }));
    ::chmod(folder.path().c_str(), 0755);
}

/// Writes with at most `limit` bytes per file and expects the error, no rest, and the old file.
bool survives_limit(const TempFolder& folder, rlim_t limit) {
    Hdf5Thread thread;
    {
        StoreWriter writer(folder.file("a.h5"), kFormat, thread);
        writer.put("/x", std::vector<float>{1, 2, 3});
        writer.commit();
    }
    limit_file_size(limit);
    const std::string error = message_of<FileError>([&] {
        StoreWriter writer(folder.file("a.h5"), kFormat, thread);
        for (int i = 0; i < 40; ++i) {
            writer.put("/array" + std::to_string(i), std::vector<float>(100'000));
        }
        writer.commit();
    });
    limit_file_size(RLIM_INFINITY);
    const auto files =
        std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{});
    const bool kept = StoreReader(folder.file("a.h5"), thread).get<float>("/x").size() == 3;
    const bool good = error.find("File too large") != std::string::npos &&
                      error.find("a.h5") != std::string::npos && files == 1 && kept;
    if (!good) {
        std::fprintf(stderr, "limit %lu: '%s', %ld files\n", static_cast<unsigned long>(limit),
                     error.c_str(), static_cast<long>(files));
    }
    return good;
}

TEST(StoreFailureTest, FullDiskIsAnErrorAndKeepsThePreviousFile) {
    for (const rlim_t limit : {rlim_t{0}, rlim_t{700}, rlim_t{100'000}, rlim_t{600'000},
                               rlim_t{1'234'567}, rlim_t{5'000'000}, rlim_t{16'000'000}}) {
        const TempFolder folder;
        EXPECT_TRUE(in_child([&] { return survives_limit(folder, limit); })) << limit;
    }
}

}  // namespace
}  // namespace cohort
