// Samples with targets in place of labels: writing, reading, batches, import.
#include "cohort/data/dataset.hpp"
#include "cohort/data/loader.hpp"

#include "support/core/file_bytes.hpp"
#include "support/core/message_of.hpp"
#include "support/data/import_test.hpp"
#include "support/data/memory_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace cohort {
namespace {

using test::message_of;
using test::read_bytes;
using test::write_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kTrainSamples = 41;
constexpr std::int64_t kTestSamples = 3;

/// Sample i is [i, i/2, 7]; its targets are [2i, 100 - i].
std::vector<float> targets_of(std::int64_t first, std::int64_t count) {
    std::vector<float> targets;
    for (std::int64_t i = first; i < first + count; ++i) {
        targets.push_back(2 * static_cast<float>(i));
        targets.push_back(100 - static_cast<float>(i));
    }
    return targets;
}

std::vector<float> samples_of(std::int64_t count) {
    std::vector<float> samples;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(i);
        samples.insert(samples.end(), {value, value / 2, 7});
    }
    return samples;
}

DatasetSpec spec() {
    DatasetSpec spec;
    spec.sample_shape = {3};
    spec.type = SampleType::kF32;
    spec.targets = 2;
    spec.chunk_samples = 32;
    return spec;
}

class TargetsTest : public ::testing::Test {
protected:
    std::string write(const std::string& name) {
        const std::string path = folder_.file(name);
        DatasetWriter writer(path, spec(), thread_);
        add(writer, DatasetGroup::kTrain, kTrainSamples);
        add(writer, DatasetGroup::kTest, kTestSamples);
        writer.commit();
        return path;
    }
    static void add(DatasetWriter& writer, DatasetGroup group, std::int64_t count) {
        const std::vector<float> samples = samples_of(count);
        writer.append(group, std::as_bytes(std::span(samples)), {}, targets_of(0, count));
    }
    std::string open_error(const std::string& path) {
        return message_of<FileError>([&] { (void)open_dataset(path, "train", thread_); });
    }

    TempFolder folder_;
    Hdf5Thread thread_;
};

TEST_F(TargetsTest, AreReadAsTheyWereWritten) {
    const std::string path = write("a.h5");
    const auto source = open_dataset(path, "train", thread_);
    const SampleSetInfo& info = source->info();
    EXPECT_EQ(info.task(), Task::kRegression);
    EXPECT_EQ(info.targets, 2);
    EXPECT_EQ(info.classes, 0);
    EXPECT_EQ(info.positions(), 0);
    // Of 0..n-1: mean (n-1)/2, variance (n^2-1)/12.
    const double deviation = std::sqrt((kTrainSamples * kTrainSamples - 1) / 12.0);
    EXPECT_THAT(info.target_mean, ElementsAre(40.0F, 80.0F));
    EXPECT_THAT(info.target_std,
                ElementsAre(static_cast<float>(2 * deviation), static_cast<float>(deviation)));
    const std::int64_t last = info.chunks() - 1;
    ASSERT_EQ(last, 1);
    EXPECT_EQ(source->read_chunk(0).targets, targets_of(0, 32));
    const RawChunk chunk = source->read_chunk(last);
    EXPECT_TRUE(chunk.labels.empty());
    EXPECT_EQ(chunk.targets, targets_of(32, kTrainSamples - 32));
    const auto test = open_dataset(path, "test", thread_);
    EXPECT_EQ(test->info().target_mean, info.target_mean) << "those of the train group";
    EXPECT_EQ(test->read_chunk(0).targets, targets_of(0, 3));
}

TEST_F(TargetsTest, DamageIsFound) {
    const std::string path = write("a.h5");
    const DatasetCheck check = verify_dataset(path, thread_);
    EXPECT_TRUE(check.checksum_recorded);
    EXPECT_THAT(check.checksum, AllOf(HasSubstr("train/targets:"), HasSubstr("test/targets:")));
    std::string bytes = read_bytes(path);
    const std::vector<float> values = targets_of(0, kTrainSamples);
    const std::size_t at = bytes.find(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    ASSERT_NE(at, std::string::npos);
    bytes[at + 20] ^= 1;
    write_bytes(path, bytes);
    EXPECT_THAT(open_error(path),
                AllOf(HasSubstr("a.h5:/train/targets"), HasSubstr("the targets are damaged")));
}

TEST_F(TargetsTest, UnusableOnesAreRefusedByName) {
    const auto error_of = [&](const std::vector<float>& targets) {
        DatasetWriter writer(folder_.file("bad.h5"), spec(), thread_);
        return message_of<Error>([&] {
            const auto count = static_cast<std::int64_t>(targets.size()) / 2;
            const std::vector<float> samples = samples_of(std::max<std::int64_t>(count, 1));
            writer.append(DatasetGroup::kTrain, std::as_bytes(std::span(samples)), {}, targets);
            add(writer, DatasetGroup::kTest, kTestSamples);
            writer.commit();
        });
    };
    EXPECT_THAT(error_of({1, 2, 3, std::numeric_limits<float>::quiet_NaN()}),
                AllOf(HasSubstr("train/targets"), HasSubstr("target 1 of sample 1 is not finite")));
    EXPECT_THAT(error_of({1, 0.1F, 3, 0.1F, 4, 0.1F}),
                HasSubstr("target 1 is the same in all train samples"));
    EXPECT_THAT(error_of({}), HasSubstr("2 targets"));
    DatasetSpec tokens{.sample_shape = {3}, .type = SampleType::kU16, .classes = 9, .targets = 1};
    EXPECT_THAT(
        message_of<UsageError>([&] { DatasetWriter(folder_.file("t.h5"), tokens, thread_); }),
        HasSubstr("unusable number of targets"));
}

TEST_F(TargetsTest, BatchesHoldThemStandardised) {
    const std::string path = write("a.h5");
    Loader loader(open_dataset(path, "train", thread_), {});
    const SampleSetInfo& info = loader.info();
    std::int64_t seen = 0;
    const bool whole = for_each_batch(loader, 4, [&](const LoadedBatch& batch) {
        EXPECT_TRUE(batch.labels().empty());
        ASSERT_EQ(batch.targets().size(), static_cast<std::size_t>(2 * batch.size()));
        const std::vector<float> stored = targets_of(seen, batch.size());
        for (std::size_t i = 0; i < stored.size(); ++i) {
            EXPECT_FLOAT_EQ(batch.targets()[i],
                            (stored[i] - info.target_mean[i % 2]) / info.target_std[i % 2]);
        }
        seen += batch.size();
    });
    EXPECT_TRUE(whole);
    EXPECT_EQ(seen, kTrainSamples);
}

TEST_F(TargetsTest, ASourceThatLeavesThemOutIsRefused) {
    SampleSetInfo info = test::set_info({3}, SampleType::kF32, 8, 4);
    info.classes = 0;
    info.targets = 2;
    info.target_mean = {0, 0};
    info.target_std = {1, 1};
    Loader loader(std::make_shared<test::MemorySource>(info), {});
    EXPECT_THAT(
        message_of<FileError>([&] { (void)for_each_batch(loader, 4, [](const LoadedBatch&) {}); }),
        HasSubstr("4 labels, 0 targets"));
}

TEST_F(TargetsTest, ASourceWithoutUsableScalesIsRefused) {
    SampleSetInfo info = test::set_info({3}, SampleType::kF32, 8, 4);
    info.classes = 0;
    info.targets = 2;
    const auto error_of = [&](std::vector<float> mean, std::vector<float> std) {
        info.target_mean = std::move(mean);
        info.target_std = std::move(std);
        return message_of<ShapeError>(
            [&] { Loader(std::make_shared<test::MemorySource>(info), {}); });
    };
    EXPECT_THAT(error_of({}, {}), HasSubstr("expected 2 of each, got 0 and 0"));
    EXPECT_THAT(error_of({0, 0}, {1}), HasSubstr("expected 2 of each, got 2 and 1"));
    EXPECT_THAT(error_of({0, 0}, {1, 0}), HasSubstr("unusable statistics of target 1"));
    EXPECT_THAT(error_of({std::numeric_limits<float>::quiet_NaN(), 0}, {1, 1}),
                HasSubstr("unusable statistics of target 0"));
}

class TargetImportTest : public ImportTest {
protected:
    static Bytes npy(const std::string& type, const std::string& shape, const Bytes& values) {
        std::string header =
            "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
        header.resize(118, ' ');
        header.back() = '\n';
        return Bytes("\x93NUMPY\1\0", 8) + Bytes("\x76\0", 2) + header + values;
    }
    template <class T>
    static Bytes bytes(std::vector<T> values) {
        return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
    }
    void write_samples() {
        write(file("x_train.npy"), npy("<f4", "3, 2", bytes<float>({1, 2, 3, 4, 5, 6})));
        write(file("x_test.npy"), npy("<f4", "1, 2", bytes<float>({7, 8})));
    }
};

TEST_F(TargetImportTest, FloatingPointLabelsOfNumpyAreTargets) {
    write_samples();
    write(file("y_train.npy"), npy("<f8", "3", bytes<double>({0.5, -1.25, 1e6})));
    write(file("y_test.npy"), npy("<f4", "1, 1", bytes<float>({3})));
    const ImportReport report = import(options());
    EXPECT_EQ(report.train.targets, 1);
    EXPECT_EQ(chunk("train").targets, (std::vector<float>{0.5F, -1.25F, 1e6F}));
    EXPECT_EQ(chunk("test").targets, (std::vector<float>{3}));
}

TEST_F(TargetImportTest, IntegersOfNumpyAreTargetsWhenAsked) {
    write_samples();
    write(file("y_train.npy"), npy(">i2", "3, 2", Bytes("\0\1\0\2\0\3\xFF\xFC\0\5\0\6", 12)));
    write(file("y_test.npy"), npy("|u1", "1, 2", "\7\10"));
    EXPECT_THAT(error(options()),
                AllOf(HasSubstr("wrong shape of labels"), HasSubstr("--regression")));
    ImportOptions asked = options();
    asked.regression = true;
    EXPECT_EQ(import(asked).train.targets, 2);
    EXPECT_EQ(chunk("train").targets, (std::vector<float>{1, 2, 3, -4, 5, 6}));
    EXPECT_EQ(chunk("test").targets, (std::vector<float>{7, 8}));
    asked.classes = 9;
    EXPECT_THROW(import(asked), UsageError);
}

TEST_F(TargetImportTest, FilesMustAgreeInTheirTargets) {
    write_samples();
    write(file("y_train.npy"), npy("<f4", "3", bytes<float>({1, 2, 3})));
    write(file("y_test.npy"), npy("<f4", "1, 2", bytes<float>({1, 2})));
    EXPECT_THAT(error(options()), HasSubstr("with 2 targets"));
    write(file("y_test.npy"), npy("|i1", "1", "\1"));
    EXPECT_THAT(error(options()), HasSubstr("samples differ from those of the first file"));
    ImportOptions classes = options();
    classes.classes = 3;
    EXPECT_THAT(message_of<UsageError>([&] { import(classes); }), HasSubstr("--classes"));
}

TEST_F(TargetImportTest, ColumnsOfCsvAreTargets) {
    write(file("train.csv"), "a,up,b,down\n1,10,2,-1\n3,11,4,-2\n5,12,6,-3\n");
    write(file("test.csv"), "a,up,b,down\n7,13,8,-4\n");
    ImportOptions wanted = options();
    wanted.target_columns = {"down", "1"};
    EXPECT_EQ(import(wanted).train.targets, 2);
    EXPECT_EQ(floats(chunk("train")), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(chunk("train").targets, (std::vector<float>{-1, 10, -2, 11, -3, 12}));
    ImportOptions label = options();
    label.label_column = "up";
    label.regression = true;
    EXPECT_EQ(import(label).train.sample_shape, (std::vector<std::int64_t>{3}));
    EXPECT_EQ(chunk("test").targets, (std::vector<float>{13}));
}

TEST_F(TargetImportTest, ASplitMovesTargetsWithTheirSamples) {
    Bytes lines;
    for (int i = 0; i < 200; ++i) {
        lines += std::to_string(i) + "," + std::to_string(3 * i) + "\n";
    }
    write(file("all.csv"), lines);
    ImportOptions wanted = options();
    wanted.target_columns = {"1"};
    wanted.test_fraction = 0.25;
    const ImportReport report = import(wanted);
    EXPECT_EQ(report.train.samples + report.test.samples, 200);
    for (const char* const group : {"train", "test"}) {
        const RawChunk all = chunk(group);
        const std::vector<float> samples = floats(all);
        for (std::size_t i = 0; i < samples.size(); ++i) {
            EXPECT_EQ(all.targets[i], 3 * samples[i]);
        }
    }
}

TEST_F(TargetImportTest, WrongColumnsOfCsvAreNamed) {
    write(file("test.csv"), "a,b\n1,2\n");
    const auto error_of = [&](const Bytes& text, std::vector<std::string> columns) {
        write(file("train.csv"), text);
        ImportOptions wanted = options();
        wanted.target_columns = std::move(columns);
        return error(wanted);
    };
    EXPECT_THAT(error_of("a,b\n1,2\n3,4\n", {"c"}),
                AllOf(HasSubstr("there is no target column 'c'"), HasSubstr("one of: a, b"),
                      HasSubstr("--target-columns")));
    EXPECT_THAT(error_of("a,b\n1,2\n3,4\n", {"2"}), HasSubstr("a number from 0 to 1"));
    EXPECT_THAT(error_of("a,b\n1,2\n3,4\n", {"b", "1"}), HasSubstr("two targets at once"));
    EXPECT_THAT(error_of("a,b\n1,2\n3,4\n", {"a", "b"}), HasSubstr("too few columns"));
    EXPECT_THAT(error_of("a,b\n1,2\n3,cold\n", {"b"}),
                AllOf(HasSubstr("train.csv:3"), HasSubstr("column 1"), HasSubstr("'cold'")));
    EXPECT_THAT(error_of("a,b\n1,2\n3,nan\n", {"b"}), HasSubstr("a finite number"));
    EXPECT_THAT(error_of("a,b\n1,2\n3,2\n", {"b"}),
                HasSubstr("target 0 is the same in all train samples"));
    write(file("train.csv"), "a,b\n1,2.5\n");
    ImportOptions label = options();
    label.label_column = "b";
    EXPECT_THAT(error(label), HasSubstr("--target-columns"));
}

TEST_F(TargetImportTest, OptionsThatDoNotFitAreRefused) {
    write_mnist_like(false);
    ImportOptions wanted = options();
    wanted.regression = true;
    EXPECT_THAT(message_of<UsageError>([&] { import(wanted); }), HasSubstr("--regression"));
    wanted.regression = false;
    wanted.target_columns = {"1"};
    EXPECT_THAT(message_of<UsageError>([&] { import(wanted); }), HasSubstr("--target-columns"));
    wanted.label_column = "b";
    EXPECT_THAT(message_of<UsageError>([&] { import(wanted); }), HasSubstr("both"));
}

}  // namespace
}  // namespace cohort
