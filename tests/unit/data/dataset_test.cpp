#include "cohort/data/dataset.hpp"
#include "cohort/core/error.hpp"

#include "support/core/child_process.hpp"
#include "support/core/file_bytes.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::read_bytes;
using test::write_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

DatasetSpec image_spec() {
    DatasetSpec spec;
    spec.sample_shape = {2, 3, 3};
    spec.chunk_samples = 8;
    spec.source = "made up";
    return spec;
}

/// Sample i: channel 0 is i (modulo 256), channel 1 is 7.
std::vector<std::byte> images(int first, int count) {
    std::vector<std::byte> bytes;
    for (int i = first; i < first + count; ++i) {
        bytes.insert(bytes.end(), 9, static_cast<std::byte>(i));
        bytes.insert(bytes.end(), 9, std::byte{7});
    }
    return bytes;
}

std::vector<std::int32_t> labels(int first, int count) {
    std::vector<std::int32_t> result;
    for (int i = first; i < first + count; ++i) {
        result.push_back(i % 5);
    }
    return result;
}

void append(DatasetWriter& writer, DatasetGroup group, int count) {
    for (int first = 0; first < count;) {  // parts of odd sizes, some over a chunk
        const int part = std::min(1 + (first * 7) % 19, count - first);
        writer.append(group, images(first, part), labels(first, part));
        first += part;
    }
}

class DatasetTest : public ::testing::Test {
protected:
    std::string file(const std::string& name) const { return folder_.file(name); }
    void write(const std::string& path, DatasetSpec spec = image_spec()) {
        DatasetWriter writer(path, std::move(spec), thread_);
        append(writer, DatasetGroup::kTest, 9);
        append(writer, DatasetGroup::kTrain, 101);
        EXPECT_EQ(writer.samples(DatasetGroup::kTrain), 101);
        writer.commit();
    }
    std::string open_error(const std::string& path) {
        return message_of<FileError>([&] { (void)open_dataset(path, "train", thread_); });
    }
    std::ptrdiff_t files_in_folder() const {
        return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{});
    }

    TempFolder folder_;
    Hdf5Thread thread_;
};

TEST_F(DatasetTest, ReadsWhatWasWritten) {
    for (const int level : {0, 6}) {
        DatasetSpec spec = image_spec();
        spec.compress_level = level;
        write(file("a.h5"), spec);
        EXPECT_EQ(files_in_folder(), 1);
        const auto source = open_dataset(file("a.h5"), "train", thread_);
        const SampleSetInfo& info = source->info();
        EXPECT_EQ(info.samples, 101);
        EXPECT_EQ(info.classes, 5);
        EXPECT_EQ(info.source, "made up");
        EXPECT_EQ(info.checksum.substr(0, 20), "crc32 train/samples:");
        EXPECT_EQ(info.chunk_samples, 32) << "stored chunks of 8 are read together";
        std::vector<std::byte> all;
        std::vector<std::int32_t> all_labels;
        for (std::int64_t index = 0; index < info.chunks(); ++index) {
            const RawChunk chunk = source->read_chunk(index);
            EXPECT_EQ(chunk.first_sample, static_cast<std::int64_t>(all_labels.size()));
            all.insert(all.end(), chunk.data.begin(), chunk.data.end());
            all_labels.insert(all_labels.end(), chunk.labels.begin(), chunk.labels.end());
        }
        EXPECT_EQ(all, images(0, 101));
        EXPECT_EQ(all_labels, labels(0, 101));
        EXPECT_EQ(open_dataset(file("a.h5"), "test", thread_)->info().samples, 9);
    }
}

TEST_F(DatasetTest, ComputesMeanAndDeviationOfTheTrainGroup) {
    write(file("a.h5"));
    const SampleSetInfo info = open_dataset(file("a.h5"), "test", thread_)->info();
    EXPECT_FLOAT_EQ(info.mean[0], 50.0F);  // of 0..100
    EXPECT_FLOAT_EQ(info.std[0], static_cast<float>(std::sqrt((101.0 * 101.0 - 1.0) / 12.0)));
    EXPECT_FLOAT_EQ(info.mean[1], 7.0F);
    EXPECT_FLOAT_EQ(info.std[1], 1.0F) << "a constant channel";
}

TEST_F(DatasetTest, StatisticsSurviveLargeOffsets) {
    DatasetSpec spec;
    spec.sample_shape = {2};
    spec.type = SampleType::kF32;
    {
        DatasetWriter writer(file("a.h5"), spec, thread_);
        for (int i = 0; i < 1000; ++i) {
            const float swing = i % 2 == 0 ? 1.0F : -1.0F;
            writer.append(DatasetGroup::kTrain, bytes_of({1e6F + swing, swing}),
                          std::vector<std::int32_t>{0});
        }
        writer.append(DatasetGroup::kTest, bytes_of({0, 0}), std::vector<std::int32_t>{1});
        writer.commit();
    }
    const SampleSetInfo info = open_dataset(file("a.h5"), "train", thread_)->info();
    EXPECT_EQ(info.mean[0], 1e6F);
    EXPECT_NEAR(info.mean[1], 0.0F, 1e-12F);
    EXPECT_FLOAT_EQ(info.std[0], 1.0F);
    EXPECT_FLOAT_EQ(info.std[1], 1.0F);
    EXPECT_EQ(info.classes, 2) << "the test group counts, too";
}

TEST_F(DatasetTest, ManyFeaturesShareOneMean) {
    DatasetSpec spec;
    spec.sample_shape = {9000};
    DatasetWriter writer(file("a.h5"), spec, thread_);
    const std::vector<std::byte> sample(9000, std::byte{3});
    writer.append(DatasetGroup::kTrain, sample, std::vector<std::int32_t>{0});
    writer.append(DatasetGroup::kTest, sample, std::vector<std::int32_t>{0});
    writer.commit();
    const SampleSetInfo info = open_dataset(file("a.h5"), "train", thread_)->info();
    EXPECT_EQ(info.mean, std::vector<float>(9000, 3.0F));
}

/// Changes a bit of sample 40 of the train set; the file keeps its time of change.
void damage(const std::string& path) {
    std::string bytes = read_bytes(path);
    const std::string pattern = std::string(9, '\x28') + std::string(9, '\x07');
    const auto at = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
    ASSERT_NE(at, bytes.end());
    const auto time = fs::last_write_time(path);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .seekp(at - bytes.begin())
        .put('\x29');
    fs::last_write_time(path, time);
}

TEST_F(DatasetTest, VerifyFindsAChangedSample) {
    write(file("a.h5"));
    const DatasetCheck check = verify_dataset(file("a.h5"), thread_);
    EXPECT_TRUE(check.checksum_recorded);
    damage(file("a.h5"));
    EXPECT_THAT(message_of<FileError>([&] { (void)verify_dataset(file("a.h5"), thread_); }),
                AllOf(HasSubstr("/train/samples"), HasSubstr("samples 32 to 63 are damaged")));
}

TEST_F(DatasetTest, ReadingFindsAChangedSample) {
    write(file("a.h5"));
    const auto source = open_dataset(file("a.h5"), "train", thread_);
    EXPECT_TRUE(source->info().checked);
    damage(file("a.h5"));
    EXPECT_EQ(source->read_chunk(0).samples, 32);
    EXPECT_THAT(message_of<FileError>([&] { (void)source->read_chunk(1); }),
                AllOf(HasSubstr("a.h5:/train/samples] samples 32 to 63 are damaged"),
                      HasSubstr("expected CRC-32")));
}

TEST_F(DatasetTest, OpeningFindsChangedLabels) {
    write(file("a.h5"));
    std::string bytes = read_bytes(file("a.h5"));
    const std::vector<std::int32_t> pattern = labels(0, 101);
    const auto* first = reinterpret_cast<const char*>(pattern.data());
    const auto at = std::search(bytes.begin(), bytes.end(), first, first + 404);
    ASSERT_NE(at, bytes.end());
    *(at + 4) = '\0';  // label 1 becomes 0
    write_bytes(file("a.h5"), bytes);
    EXPECT_THAT(open_error(file("a.h5")), HasSubstr("/train/labels] the labels are damaged"));
}

TEST_F(DatasetTest, AFileThatChangesIsNotReadOn) {
    write(file("b.h5"));
    const auto after = [&](const std::function<void(const std::string&)>& change) {
        const std::string path = file("a.h5");
        write(path);
        const auto source = open_dataset(path, "train", thread_);
        change(path);
        return message_of<FileError>([&] { (void)source->read_chunk(1); });
    };
    const std::string where = "a.h5:/train/samples] the file ";
    EXPECT_EQ(after([](const std::string&) {}), "");
    EXPECT_EQ(after([](const std::string& path) { fs::remove(path); }), "");
    EXPECT_EQ(after([&](const std::string& path) { fs::rename(path, file("c.h5")); }), "");
    EXPECT_EQ(after([&](const std::string& path) { (void)read_bytes(path); }), "")
        << "reading is no change";
    EXPECT_THAT(after([](const std::string& path) { fs::resize_file(path, 5000); }),
                AllOf(HasSubstr(where + "was truncated"), HasSubstr("samples 32 to 63"),
                      HasSubstr("got 5000")));
    EXPECT_THAT(after([](const std::string& path) { fs::resize_file(path, 50000); }),
                HasSubstr(where + "grew"));
    EXPECT_THAT(
        after([&](const std::string& path) { write_bytes(path, read_bytes(file("b.h5"))); }),
        HasSubstr(where + "was written to"));
    EXPECT_THAT(after([&](const std::string& path) { fs::rename(file("b.h5"), path); }),
                HasSubstr(where + "was replaced by another"));
}

TEST_F(DatasetTest, NamesAValueThatIsNotFinite) {
    DatasetSpec spec;
    spec.sample_shape = {1, 2, 2};
    spec.type = SampleType::kF32;
    DatasetWriter writer(file("a.h5"), spec, thread_);
    EXPECT_THAT(message_of<FileError>([&] {
                    writer.append(DatasetGroup::kTrain, bytes_of({0, 1, 2, 3, 4, NAN, 6, 7}),
                                  std::vector<std::int32_t>{0, 0});
                }),
                HasSubstr("a.h5:/train/samples] sample 1 holds a value that is not finite; "
                          "expected finite numbers, got nan at [0,0,1]"));
}

TEST_F(DatasetTest, RefusesMoreClassesThanCanBeMeant) {
    DatasetSpec spec = image_spec();
    spec.classes = 2'000'000'000;
    EXPECT_THAT(message_of<FileError>([&] { write(file("a.h5"), spec); }),
                AllOf(HasSubstr("@classes] too many classes"), HasSubstr("got 2000000000")));
    spec.classes = 100'000;  // whoever states a number may have few samples
    write(file("a.h5"), spec);
    EXPECT_EQ(open_dataset(file("a.h5"), "train", thread_)->info().classes, 100'000);
}

TEST_F(DatasetTest, APipeIsAnErrorAtOnce) {
    ASSERT_EQ(::mkfifo(file("pipe.h5").c_str(), 0600), 0);
    EXPECT_THAT(open_error(file("pipe.h5")),
                AllOf(HasSubstr("pipe.h5"), HasSubstr("expected a regular file, got a pipe")));
}

TEST_F(DatasetTest, VerifySurvivesEveryFlippedBit) {
    write(file("a.h5"));
    const std::string intact = verify_dataset(file("a.h5"), thread_).checksum;
    const std::string whole = read_bytes(file("a.h5"));
    std::fstream flipped(file("a.h5"), std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, int byte) {
        flipped.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
    };
    int found = 0;
    for (std::size_t at = 0; at < whole.size(); at += 11) {
        put(at, whole[at] ^ (1 << (at % 8)));
        try {
            EXPECT_EQ(verify_dataset(file("a.h5"), thread_).checksum, intact) << at;
        } catch (const FileError&) {
            ++found;
        }
        put(at, whole[at]);
    }
    EXPECT_GT(found, 100);
}

TEST_F(DatasetTest, RefusesEveryTruncation) {
    write(file("a.h5"));
    const std::string whole = read_bytes(file("a.h5"));
    write_bytes(file("torn.h5"), whole);
    for (std::size_t length = whole.size() - 1; length > 0;
         length -= std::min<std::size_t>(length, 101)) {
        fs::resize_file(file("torn.h5"), length);
        ASSERT_THAT(open_error(file("torn.h5")),
                    AllOf(HasSubstr("torn.h5"), HasSubstr(length > 100 ? "truncated" : "HDF5")))
            << length;
    }
}

TEST_F(DatasetTest, SaysWhyAFileCannotBeOpened) {
    EXPECT_THAT(open_error(file("absent.h5")),
                AllOf(HasSubstr("absent.h5"), HasSubstr("No such file")));
    EXPECT_THAT(open_error(folder_.path()), HasSubstr("folder"));
    write_bytes(file("empty.h5"), {});
    EXPECT_THAT(open_error(file("empty.h5")), HasSubstr("not an HDF5 file"));
    write_bytes(file("text.h5"), std::string(5000, 'a'));
    EXPECT_THAT(open_error(file("text.h5")),
                AllOf(HasSubstr("text.h5"), HasSubstr("not an HDF5 file"), HasSubstr("5000")));
    write(file("a.h5"));
    EXPECT_THAT(
        message_of<FileError>([&] { (void)open_dataset(file("a.h5"), "validation", thread_); }),
        AllOf(HasSubstr("/validation/samples"), HasSubstr("missing")));
}

TEST_F(DatasetTest, WriterRefusesWhatTrainingCannotUse) {
    DatasetSpec spec;
    spec.sample_shape = {2};
    spec.type = SampleType::kF32;
    spec.classes = 3;
    DatasetWriter writer(file("a.h5"), spec, thread_);
    const auto put = [&](const std::vector<float>& values, std::int32_t label) {
        return message_of<FileError>(
            [&] { writer.append(DatasetGroup::kTrain, bytes_of(values), std::vector{label}); });
    };
    EXPECT_EQ(put({1, 2}, 2), "");
    EXPECT_THAT(put({1, 2}, 3), AllOf(HasSubstr("label 1"), HasSubstr("expected 0 to 2, got 3")));
    EXPECT_THAT(put({1, 2}, -1), HasSubstr("got -1"));
    EXPECT_THAT(put({1, std::numeric_limits<float>::infinity()}, 0), HasSubstr("sample 1"));
    EXPECT_THROW(
        writer.append(DatasetGroup::kTrain, bytes_of({1, 2, 3}), std::vector<std::int32_t>{0}),
        ShapeError);
    EXPECT_THAT(message_of<FileError>([&] { writer.commit(); }),
                AllOf(HasSubstr("/test"), HasSubstr("the set is empty")));
}

TEST_F(DatasetTest, AppearsOnlyByCommit) {
    write(file("a.h5"));
    const std::string before = read_bytes(file("a.h5"));
    {
        DatasetWriter writer(file("a.h5"), image_spec(), thread_);
        append(writer, DatasetGroup::kTrain, 30);
    }
    EXPECT_EQ(read_bytes(file("a.h5")), before);
    EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(DatasetTest, RefusesAnUnusableSpec) {
    const auto make = [&](const std::function<void(DatasetSpec&)>& change) {
        DatasetSpec spec = image_spec();
        change(spec);
        DatasetWriter(file("a.h5"), spec, thread_);
    };
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.sample_shape = {3, 4}; }), UsageError);
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.sample_shape = {}; }), UsageError);
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.sample_shape = {0}; }), UsageError);
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.compress_level = 10; }), UsageError);
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.chunk_samples = -1; }), UsageError);
    EXPECT_THROW(make([](DatasetSpec& spec) { spec.classes = -1; }), UsageError);
    EXPECT_EQ(files_in_folder(), 0);
}

// These run without the fixture: a child process must make its own HDF5 thread.
TEST(DatasetFailureTest, NoPermissionIsAnError) {
    const TempFolder folder;
    ::chmod(folder.path().c_str(), 0755);
    write_bytes(folder.file("secret.h5"), "x");
    ::chmod(folder.file("secret.h5").c_str(), 0000);
    EXPECT_TRUE(in_child([&] {
        Hdf5Thread thread;
        const auto says = [&](const std::function<void()>& action) {
            return message_of<FileError>(action).find("Permission denied") != std::string::npos;
        };
        return become_nobody() &&
               says([&] { (void)open_dataset(folder.file("secret.h5"), "train", thread); }) &&
               (::geteuid() != 65534 ||
                says([&] { DatasetWriter(folder.file("new.h5"), image_spec(), thread); }));
    }));
}

bool full_disk_is_an_error(const TempFolder& folder, rlim_t limit) {
    Hdf5Thread thread;
    limit_file_size(limit);
    const std::string error = message_of<FileError>([&] {
        DatasetSpec spec;
        spec.sample_shape = {1000};
        DatasetWriter writer(folder.file("a.h5"), spec, thread);
        const std::vector<std::byte> block(100'000);
        const std::vector<std::int32_t> zeros(100);
        for (int i = 0; i < 100; ++i) {
            writer.append(i % 10 == 0 ? DatasetGroup::kTest : DatasetGroup::kTrain, block, zeros);
        }
        writer.commit();
    });
    return error.find("File too large") != std::string::npos &&
           error.find(folder.file("a.h5")) != std::string::npos && fs::is_empty(folder.path());
}

TEST(DatasetFailureTest, FullDiskIsAnErrorAndLeavesNothing) {
    for (const rlim_t limit :
         {rlim_t{0}, rlim_t{1'000'000}, rlim_t{2'345'678}, rlim_t{9'000'000}}) {
        const TempFolder folder;
        EXPECT_TRUE(in_child([&] { return full_disk_is_an_error(folder, limit); })) << limit;
    }
}

}  // namespace
}  // namespace cohort
