// Files that h5py users write, right and wrong ones; tests/tools/h5py_datasets.py makes them.
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"

#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DatasetH5pyTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = std::make_unique<TempFolder>();
        const std::string command = std::string("'" COHORT_TEST_PYTHON "' '" COHORT_TEST_SOURCE
                                                "/tests/tools/h5py_datasets.py' "
                                                "'" COHORT_TEST_SOURCE "/docs/data.md' '") +
                                    folder_->path() + "'";
        made_ = std::system(command.c_str()) == 0;
    }
    static void TearDownTestSuite() { folder_.reset(); }
    void SetUp() override { ASSERT_TRUE(made_) << "python3 with h5py (python3-h5py) is needed"; }

    static std::string file(const std::string& name) { return folder_->file(name + ".h5"); }
    std::unique_ptr<SampleSource> open(const std::string& name) {
        return open_dataset(file(name), "train", thread_);
    }
    std::string error(const std::string& name) {
        return test::message_of<FileError>([&] { return open(name); });
    }
    std::vector<std::byte> all(const std::string& name) {
        const auto source = open(name);
        std::vector<std::byte> bytes;
        for (std::int64_t index = 0; index < source->info().chunks(); ++index) {
            const RawChunk chunk = source->read_chunk(index);
            bytes.insert(bytes.end(), chunk.data.begin(), chunk.data.end());
        }
        return bytes;
    }

    static std::unique_ptr<TempFolder> folder_;
    static bool made_;
    Hdf5Thread thread_;
};

std::unique_ptr<TempFolder> DatasetH5pyTest::folder_;
bool DatasetH5pyTest::made_ = false;

TEST_F(DatasetH5pyTest, ReadsTheDocumentedFiveLines) {
    const auto source = open("documented");
    const SampleSetInfo& info = source->info();
    EXPECT_EQ(info.samples, 150);
    EXPECT_EQ(info.classes, 10);
    EXPECT_EQ(info.type, SampleType::kU8);
    EXPECT_EQ(info.sample_shape, (std::vector<std::int64_t>{3, 4, 5}));
    ASSERT_EQ(info.mean.size(), 3U) << "one value stands for all channels";
    EXPECT_EQ(info.mean[0], info.mean[2]);
    EXPECT_NEAR(info.mean[0], 127.0F, 10.0F);
    EXPECT_NEAR(info.std[0], 74.0F, 5.0F);
    const RawChunk last = source->read_chunk(info.chunks() - 1);
    EXPECT_EQ(last.first_sample + last.samples, 150);
    EXPECT_EQ(last.labels.back(), 9);
    EXPECT_EQ(open_dataset(file("documented"), "test", thread_)->info().samples, 70);
}

TEST_F(DatasetH5pyTest, ReadsTheDocumentedTargets) {
    const auto source = open("targets");
    const SampleSetInfo& info = source->info();
    EXPECT_EQ(info.task(), Task::kRegression);
    EXPECT_EQ(info.targets, 2);
    ASSERT_EQ(info.target_mean.size(), 2U);
    EXPECT_NEAR(info.target_mean[1], 0.0F, 0.3F);
    EXPECT_NEAR(info.target_std[1], 1.0F, 0.2F);
    EXPECT_EQ(source->read_chunk(0).targets.size(), 128U);
    EXPECT_EQ(open("targets_double")->info().targets, 2);
}

TEST_F(DatasetH5pyTest, StorageMakesNoDifference) {
    const std::vector<std::byte> bytes = all("documented");
    EXPECT_EQ(all("contiguous"), bytes);
    EXPECT_EQ(all("gzip"), bytes);
    EXPECT_EQ(all("one_per_chunk"), bytes);
    EXPECT_EQ(open("one_per_chunk")->info().chunks(), 5) << "small chunks are read together";
    EXPECT_EQ(open("float")->info().type, SampleType::kF32);
    EXPECT_EQ(all("big_endian"), all("float"));
    EXPECT_EQ(open("per_channel")->info().mean, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(open("fixed_text")->info().samples, 150);
}

TEST_F(DatasetH5pyTest, VerifiesOnDemand) {
    const DatasetCheck check = verify_dataset(file("documented"), thread_);
    EXPECT_FALSE(check.checksum_recorded);
    EXPECT_EQ(check.train_samples, 150);
    EXPECT_EQ(check.test_samples, 70);
    EXPECT_THROW((void)verify_dataset(file("wrong_checksum"), thread_), FileError);
}

TEST_F(DatasetH5pyTest, KnowsWhatIsChecked) {
    EXPECT_FALSE(open("documented")->info().checked);
    EXPECT_FALSE(open("contiguous")->info().checked);
    EXPECT_TRUE(open("gzip")->info().checked);
    EXPECT_TRUE(open("fletcher32")->info().checked);
    EXPECT_TRUE(open("own_checksums")->info().checked);
    EXPECT_EQ(all("own_checksums"), all("documented"));
    EXPECT_FALSE(open("other_chunks")->info().checked) << "stored anew, as h5repack does";
    EXPECT_EQ(all("other_chunks"), all("documented"));
}

TEST_F(DatasetH5pyTest, WithoutChecksumsTheFirstReadCounts) {
    const auto source = open("documented");
    const std::string labels_and_ends = source->info().checksum;
    EXPECT_THAT(labels_and_ends, HasSubstr("first chunk"));
    EXPECT_EQ(open("contiguous")->info().checksum.substr(0, 21), labels_and_ends.substr(0, 21));
    const RawChunk chunk = source->read_chunk(1);
    const std::string path = file("documented");
    const auto time = std::filesystem::last_write_time(path);
    std::fstream changed(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes{std::istreambuf_iterator<char>(changed), {}};
    const std::size_t at =
        bytes.find(std::string(reinterpret_cast<const char*>(chunk.data.data()), 60));
    ASSERT_NE(at, std::string::npos);
    changed.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ 1)).flush();
    std::filesystem::last_write_time(path, time);
    EXPECT_EQ(source->read_chunk(0).samples, 64);
    EXPECT_THROW((void)source->read_chunk(1), FileError);
}

struct Wrong {
    const char* name;
    std::vector<std::string> words;
};

TEST_F(DatasetH5pyTest, NamesWhatIsWrong) {
    const std::string samples = ":/train/samples]";
    const std::string labels = ":/train/labels]";
    const std::vector<Wrong> cases{
        {"no_format", {"attribute 'format' is missing"}},
        {"no_version", {"attribute 'version' is missing"}},
        {"targets_version", {":/train/targets]", "targets in a file of classes", "version=2"}},
        {"targets_rank", {":/train/targets]", "[150,D]", "targets[:, None]"}},
        {"targets_count", {":/train/targets]", "[150,D]", "[149,2]"}},
        {"targets_integers", {":/train/targets]", "wrong type", "float32"}},
        {"targets_nan", {":/train/targets]", "target 0 of sample 0 is not finite"}},
        {"targets_and_labels", {labels, "labels beside targets"}},
        {"targets_missing", {":/train/targets]", "missing"}},
        {"targets_means", {"@target_mean]", "one per target"}},
        {"targets_constant", {"@target_std]", "a number above 0"}},
        {"targets_tokens", {":/train/targets]", "targets beside tokens"}},
        {"no_classes", {"attribute 'classes' is missing"}},
        {"no_mean", {"attribute 'mean' is missing"}},
        {"no_std", {"attribute 'std' is missing"}},
        {"other_format", {"@format]", "expected cohort-dataset, got other"}},
        {"other_version", {"@version]", "expected 1, with targets 2, got 3"}},
        {"zero_classes", {"@classes]", "expected at least 1, got 0"}},
        {"text_classes", {"@classes]", "expected one integer", "text"}},
        {"zero_std", {"@std]", "expected a number above 0, got 0"}},
        {"nan_mean", {"@mean]", "expected a finite number, got nan"}},
        {"two_means", {"@mean]", "expected 1 or 3", "got 2"}},
        {"two_means_grey", {"@mean]", "expected 1, got 2"}},
        {"no_group", {samples, "missing"}},
        {"no_samples", {samples, "missing"}},
        {"no_labels", {labels, "missing"}},
        {"double", {samples, "expected uint8 or float32, of tokens uint16 or int32, got float64"}},
        {"rank3", {samples, "expected [N,C,H,W] or [N,F], got [150,4,5]", "samples[:, None]"}},
        {"empty", {samples, "empty", "got [0,3,4,5]"}},
        {"cut_chunks", {samples, "chunks cut samples", "[64,3,2,5]"}},
        {"lzf", {samples, "filter", "gzip", "got lzf", "try compression=\"gzip\""}},
        {"lzf_labels", {labels, "filter", "got lzf"}},
        {"virtual", {samples, "other files"}},
        {"unfinished", {samples, "not finished", "expected 3 chunks, got 2"}},
        {"never_written", {samples, "not finished", "expected 9000 bytes, got none"}},
        {"label_high", {labels, "label 17 is out of range", "expected 0 to 9, got 10"}},
        {"label_low", {labels, "label 17 is out of range", "expected 0 to 9, got -1"}},
        {"label_float", {labels, "expected integers, got float32"}},
        {"ids", {"@classes]", "labels seem to be ids", "1 to 131072", "got 2000000000"}},
        {"damaged", {samples, "samples 0 to 63 are damaged", "expected CRC-32 00000000"}},
        {"few_checksums", {":/train/samples_crc32]", "do not fit", "got [2]"}},
        {"label_count", {labels, "expected [150]", "got [149]"}},
    };
    for (const Wrong& wrong : cases) {
        const std::string message = error(wrong.name);
        EXPECT_THAT(message, HasSubstr(file(wrong.name))) << wrong.name;
        for (const std::string& words : wrong.words) {
            EXPECT_THAT(message, HasSubstr(words)) << wrong.name;
        }
    }
}

}  // namespace
}  // namespace cohort
