// --test-fraction: exactly that share, of each class alike, in every format.
#include "support/data/import_test.hpp"

#include "data/import/test_split.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include <png.h>

namespace cohort {
namespace {

using Counts = std::map<std::int32_t, std::int64_t>;

Counts counts_of(const std::vector<std::int32_t>& labels) {
    Counts counts;
    for (const std::int32_t label : labels) {
        ++counts[label];
    }
    return counts;
}

/// The labels that a split moves to the test group.
std::vector<std::int32_t> drawn(const std::vector<std::int32_t>& labels, double fraction,
                                std::uint64_t seed = 0) {
    TestSplit split;
    split.count(labels);
    split.draw(fraction, seed);
    std::vector<std::int32_t> test;
    for (const std::int32_t label : labels) {
        if (split.goes_to_test(label)) {
            test.push_back(label);
        }
    }
    return test;
}

TEST(TestSplit, IsTheShareOfAllAndOfEachClass) {
    for (const std::size_t samples : {2U, 3U, 7U, 100U, 101U, 1000U}) {
        for (const int classes : {1, 2, 3, 10}) {
            std::vector<std::int32_t> labels(samples);
            for (std::size_t i = 0; i < samples; ++i) {
                // The first class has half of them, the next half of the rest, and so on.
                labels[i] = std::min(std::countr_one(i), classes - 1);
            }
            for (const double fraction : {0.001, 0.1, 0.2, 0.3, 0.5, 0.75, 0.999}) {
                const std::vector<std::int32_t> test = drawn(labels, fraction);
                const auto all = static_cast<double>(samples);
                EXPECT_EQ(static_cast<double>(test.size()),
                          std::clamp(std::round(fraction * all), 1.0, all - 1))
                    << samples << " " << fraction;
                const double share = static_cast<double>(test.size()) / all;
                const Counts whole = counts_of(labels);
                Counts moved = counts_of(test);
                const auto full = std::ranges::count_if(whole, [&](const auto& each) {
                    return share * static_cast<double>(each.second) >
                           static_cast<double>(each.second - 1);
                });
                for (const auto& [label, count] : whole) {
                    // A sample away from the class's share, and one more for each class that keeps
                    // its last train sample.
                    EXPECT_LE(std::abs(static_cast<double>(moved[label]) -
                                       share * static_cast<double>(count)),
                              static_cast<double>(1 + full))
                        << samples << " " << classes << " " << fraction << " " << label;
                }
            }
        }
    }
}

TEST(TestSplit, LeavesEachClassATrainSampleWhereItCan) {
    // Shares of 0.9: the quota of a class of one rounds up, which would leave none to learn from.
    const std::vector<std::int32_t> labels{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2};
    Counts moved = counts_of(drawn(labels, 0.75));
    EXPECT_EQ(moved[0], 9);
    EXPECT_EQ(moved[1] + moved[2], 0);
    EXPECT_EQ(drawn({0, 1, 2, 3}, 0.5).size(), 2U) << "not all classes can keep one";
}

TEST(TestSplit, IsDrawnFromTheSeedWithoutAnOrder) {
    const std::vector<std::int32_t> same(100, 0);
    std::map<std::size_t, int> times;  // by place in the order
    constexpr int kSeeds = 2000;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        TestSplit split;
        split.count(same);
        split.draw(0.2, seed);
        for (std::size_t i = 0; i < same.size(); ++i) {
            times[i] += split.goes_to_test(0) ? 1 : 0;
        }
    }
    // Binomial: 400 of 2000, deviation 17.9; the largest of 100 places stays within five of them.
    for (const auto& [place, count] : times) {
        EXPECT_NEAR(count, kSeeds / 5, 5 * 17.9) << place;
    }
}

class SplitImportTest : public ImportTest {
protected:
    static constexpr int kSamples = 100;
    static std::int32_t label(int sample) { return sample % 7 % 4; }

    /// Each sample has its number in it, so that nothing may be lost or come twice.
    void expect_split(const ImportOptions& how, const std::string& what) {
        for (const double fraction : {0.2, 0.25, 0.003}) {
            ImportOptions one = how;
            one.test_fraction = fraction;
            const ImportReport report = import(one);
            const auto wanted = std::max<std::int64_t>(std::lround(fraction * kSamples), 1);
            EXPECT_EQ(report.test.samples, wanted) << what;
            EXPECT_EQ(report.train.samples, kSamples - wanted) << what;
            std::vector<std::int32_t> labels = chunk("train").labels;
            Counts moved = counts_of(chunk("test").labels);
            for (const auto& [label, count] : counts_of(labels)) {
                const auto all = static_cast<double>(count + moved[label]);
                EXPECT_LE(std::abs(static_cast<double>(moved[label]) -
                                   all * static_cast<double>(wanted) / kSamples),
                          1)
                    << what << " " << label;
            }
            const std::vector<std::int32_t> other = chunk("test").labels;
            labels.insert(labels.end(), other.begin(), other.end());
            std::vector<std::int32_t> written;
            for (int i = 0; i < kSamples; ++i) {
                written.push_back(label(i));
            }
            std::ranges::sort(labels);
            std::ranges::sort(written);
            EXPECT_EQ(labels, written) << what;
        }
    }
};

TEST_F(SplitImportTest, EveryFormatIsSplitAlike) {
    Bytes csv;
    Bytes labels;
    Bytes records;
    for (int i = 0; i < kSamples; ++i) {
        csv += std::to_string(label(i)) + "," + std::to_string(i) + "\n";
        labels += static_cast<char>(label(i));
        records += static_cast<char>(label(i)) + Bytes(3072, static_cast<char>(i));
    }
    write(file("all.csv"), csv);
    expect_split(options({"all.csv"}), "csv");
    write(file("images-idx3-ubyte"), idx(8, {kSamples, 1, 1}, counting(kSamples)));
    write(file("labels-idx1-ubyte"), idx(8, {kSamples}, labels));
    expect_split(options({"images-idx3-ubyte", "labels-idx1-ubyte"}), "idx");
    write(file("batch.bin"), records);
    ImportOptions cifar = options({"batch.bin"});
    cifar.format = ImportFormat::kCifar10;
    expect_split(cifar, "cifar10");
    std::filesystem::create_directory(file("images"));
    for (int i = 0; i < kSamples; ++i) {
        const std::string folder = file("images/" + std::to_string(label(i)));
        std::filesystem::create_directory(folder);
        png_image png{.version = PNG_IMAGE_VERSION, .width = 1, .height = 1};
        png.format = PNG_FORMAT_GRAY;
        const auto pixel = static_cast<std::uint8_t>(i);
        ASSERT_NE(png_image_write_to_file(&png, (folder + "/" + std::to_string(i) + ".png").c_str(),
                                          0, &pixel, 0, nullptr),
                  0);
    }
    ImportOptions folder = options({"images"});
    folder.format = ImportFormat::kFolder;
    expect_split(folder, "folder");
}

TEST_F(SplitImportTest, TwoSamplesAreOneOfEach) {
    write(file("all.csv"), "0,1\n1,2\n");
    for (const double fraction : {0.001, 0.3, 0.5, 0.999}) {
        ImportOptions how = options({"all.csv"});
        how.test_fraction = fraction;
        EXPECT_EQ(import(how).test.samples, 1) << fraction;
    }
    std::filesystem::remove(output());
    write(file("all.csv"), "0,1\n");
    ImportOptions how = options({"all.csv"});
    how.test_fraction = 0.5;
    EXPECT_THAT(error(how), ::testing::HasSubstr("a single sample"));
}

TEST_F(SplitImportTest, TargetsHaveNoClassesButTheShareIsExact) {
    Bytes csv;
    for (int i = 0; i < kSamples; ++i) {
        csv += std::to_string(i) + "," + std::to_string(3 * i) + "\n";
    }
    write(file("all.csv"), csv);
    ImportOptions how = options({"all.csv"});
    how.target_columns = {"1"};
    how.test_fraction = 0.2;
    EXPECT_EQ(import(how).test.samples, 20);
}

}  // namespace
}  // namespace cohort
