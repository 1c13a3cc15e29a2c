#include "records/tensorboard/event_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cohort/core/error.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

/// A little-endian number at a place of a file.
template <class T>
T number_at(const std::string& bytes, std::size_t place) {
    T value{};
    std::memcpy(&value, bytes.data() + place, sizeof value);
    return value;
}

/// The records' contents. Framing and checksums are those of TFRecord files.
std::vector<std::string> records(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const auto masked = [](std::string_view part) {
        const std::uint32_t crc = crc32c_of(part);
        return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
    };
    std::vector<std::string> found;
    for (std::size_t place = 0; place < bytes.size();) {
        const auto length = number_at<std::uint64_t>(bytes, place);
        EXPECT_EQ(number_at<std::uint32_t>(bytes, place + 8), masked(bytes.substr(place, 8)));
        found.push_back(bytes.substr(place + 12, length));
        EXPECT_EQ(number_at<std::uint32_t>(bytes, place + 12 + length), masked(found.back()));
        place += 12 + length + 4;
    }
    return found;
}

TEST(Crc32c, IsThatOfRfc3720) {
    EXPECT_EQ(crc32c_of("123456789"), 0xE3069283U);
    EXPECT_EQ(crc32c_of(std::string(32, '\0')), 0x8A9136AAU);
    EXPECT_EQ(crc32c_of(std::string(32, '\xFF')), 0x62A8AB43U);
    EXPECT_EQ(crc32c_of(""), 0U);
}

TEST(EventFile, RecordsAreThoseOfTensorBoard) {
    const TempFolder folder;
    EventFile file(folder.file("events"), 1.5, {});
    file.scalars(3, 2, std::vector<EventFile::Scalar>{{"a/b", 0}, {"c", 1}});
    const std::vector<std::string> found = records(file.path());
    ASSERT_EQ(found.size(), 2U);
    using namespace std::string_literals;
    // Field 1 wall_time (double), 3 file_version (text).
    EXPECT_EQ(found[0], "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x1A\x0D"s + "brain.Event:2");
    // Fields 1 and 2, step; 5 summary, in it two values of field 1: tag 1, simple_value 2, zero
    // too.
    EXPECT_EQ(found[1],
              "\x09\x00\x00\x00\x00\x00\x00\x00\x40\x10\x03\x2A\x16"
              "\x0A\x0A\x0A\x03"
              "a/b"
              "\x15\x00\x00\x00\x00"
              "\x0A\x08\x0A\x01"
              "c"
              "\x15\x00\x00\x80\x3F"s);
}

TEST(EventFile, AResumedRunHasAFileOfItsOwn) {
    const TempFolder folder;
    const EventFile first(folder.file("events"), 100, {});
    const EventFile second(folder.file("events"), 100.5, 64);
    EXPECT_EQ(event_files(folder.file("events")),
              (std::vector<std::string>{first.path(), second.path()}));
    EXPECT_EQ(records(second.path()).size(), 2U) << "its version and where it starts";
    EXPECT_TRUE(event_files(folder.file("missing")).empty());
}

/// The curves of both files together never run backwards, whoever reads them.
TEST(EventFile, OlderFilesAreCutWhereTheRunGoesOn) {
    const TempFolder folder;
    EventFile first(folder.file("events"), 100, {});
    for (const std::int64_t step : {32, 64, 96}) {
        first.scalars(step, 101, std::vector<EventFile::Scalar>{{"a/b", 1}});
    }
    const std::vector<std::string> before = records(first.path());
    ASSERT_EQ(before.size(), 4U);
    std::ofstream(folder.file("events/notes.tfevents.txt")) << "not of this format";
    const EventFile second(folder.file("events"), 200, 64);
    EXPECT_EQ(records(first.path()), std::vector<std::string>(before.begin(), before.begin() + 3));
    EXPECT_EQ(std::filesystem::file_size(folder.file("events/notes.tfevents.txt")), 18U);
}

/// Deleted in mid-run: written anew, with what had been in it.
TEST(EventFile, ADeletedFileIsWrittenAnew) {
    const TempFolder folder;
    EventFile file(folder.file("events"), 100, {});
    file.scalars(32, 101, std::vector<EventFile::Scalar>{{"a/b", 1}});
    std::filesystem::remove_all(folder.file("events"));
    file.scalars(64, 102, std::vector<EventFile::Scalar>{{"a/b", 2}});
    EXPECT_EQ(records(file.path()).size(), 3U);
}

TEST(EventFile, ALinkIsNotFollowed) {
    const TempFolder folder;
    std::filesystem::create_directory(folder.file("elsewhere"));
    std::filesystem::create_directory_symlink(folder.file("elsewhere"), folder.file("events"));
    EXPECT_THROW(EventFile(folder.file("events"), 0, {}), FileError);
}

}  // namespace
}  // namespace cohort
