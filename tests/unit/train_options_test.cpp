#include "cohort/train/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cohort/core/error.hpp"
#include "train_parts.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

TrainOptions good() {
    TrainOptions options;
    options.data = "d.h5";
    options.out = "runs/x";
    return options;
}

/// The message of the UsageError that these options raise; empty when they pass.
std::string complaint(const std::function<void(TrainOptions&)>& change, int world_size = 1) {
    TrainOptions options = good();
    change(options);
    try {
        check_options(options, world_size);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(TrainOptions, DefaultsPassWithDataAndOut) {
    EXPECT_EQ(complaint([](TrainOptions&) {}), "");
}

TEST(TrainOptions, OneRankSaysSo) {
    EXPECT_THAT(complaint([](TrainOptions&) {}, 2), HasSubstr("this build trains on one rank"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.mode = "ssgd"; }), HasSubstr("one rank"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.arch = "servers"; }), HasSubstr("--arch ring"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.servers = 1; }), HasSubstr("--servers"));
}

TEST(TrainOptions, NamesTheOptionThatIsWrong) {
    EXPECT_THAT(complaint([](TrainOptions& o) { o.data.clear(); }), HasSubstr("--data"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.out.clear(); }), HasSubstr("--out"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.batch = 0; }), HasSubstr("--batch"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.lr = 0; }), HasSubstr("--lr"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.momentum = 1; }), HasSubstr("--momentum"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.threads = 1025; }), HasSubstr("--threads"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.loader_threads = 1025; }),
                HasSubstr("--loader-threads"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.target_accuracy = 90; }),
                HasSubstr("--target-accuracy"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.keep_checkpoints = 0; }),
                HasSubstr("--keep-checkpoints"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.epochs = o.samples = 5; }),
                HasSubstr("--samples, --epochs"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.resume = o.overwrite = true; }),
                HasSubstr("--resume, --overwrite"));
}

TEST(TrainOptions, AugmentationGrammar) {
    EXPECT_EQ(parse_augment("none", 1).pad, 0);
    EXPECT_FALSE(parse_augment("none", 1).flip);
    EXPECT_EQ(parse_augment("pad-crop:2", 1).pad, 2);
    EXPECT_EQ(parse_augment("pad-crop", 1).pad, 4);
    const AugmentOptions both = parse_augment("flip,pad-crop:3", 9);
    EXPECT_TRUE(both.flip);
    EXPECT_EQ(both.pad, 3);
    EXPECT_EQ(both.seed, 9U);
    for (const char* wrong : {"crop", "pad-crop:x", "pad-crop:0", "pad-cropping", "flip;pad-crop",
                              "flip,flip", "pad-crop,flip,pad-crop:2"}) {
        EXPECT_THROW((void)parse_augment(wrong, 1), UsageError) << wrong;
    }
}

TEST(RunIdentity, IsTheDatasetsContentNotItsPath) {
    SampleSetInfo info;
    info.sample_shape = {1, 2, 2};
    info.samples = 100;
    info.chunk_samples = 32;
    info.classes = 4;
    info.mean = {0.5F};
    info.std = {1};
    info.source = "./a.h5";
    const auto identity = [](const SampleSetInfo& set) { return run_identity(good(), set); };
    const auto differs = [&](const std::function<void(SampleSetInfo&)>& change) {
        SampleSetInfo changed = info;
        change(changed);
        return identity(changed) != identity(info);
    };
    EXPECT_FALSE(differs([](SampleSetInfo& set) { set.source = "a.h5"; }));
    EXPECT_TRUE(differs([](SampleSetInfo& set) { set.chunk_samples = 64; }));
    EXPECT_TRUE(differs([](SampleSetInfo& set) { set.type = SampleType::kF32; }));
    EXPECT_TRUE(differs([](SampleSetInfo& set) { set.checksum = "crc32 train/samples:0"; }));
    EXPECT_TRUE(differs([](SampleSetInfo& set) { set.mean = {0.25F}; }));
}

}  // namespace
}  // namespace cohort
