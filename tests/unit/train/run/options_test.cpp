#include "cohort/train/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

TrainOptions good() {
    TrainOptions options;
    options.data = "d.h5";
    options.out = "runs/x";
    return options;
}

/// The message of the UsageError that these options raise.
std::string complaint(const std::function<void(TrainOptions&)>& change, int world_size = 1) {
    TrainOptions options = good();
    change(options);
    return test::message_of<UsageError>([&] { (void)checked(options, world_size); });
}

TEST(TrainOptions, DefaultsPassWithDataAndOut) {
    EXPECT_EQ(complaint([](TrainOptions&) {}), "");
}

TEST(TrainOptions, RolesNeedRanksAndModesAnArchitecture) {
    EXPECT_EQ(complaint([](TrainOptions&) {}, 4), "");
    EXPECT_EQ(complaint([](TrainOptions& o) { o.arch = Architecture::kServers; }, 2), "");
    EXPECT_THAT(complaint([](TrainOptions& o) { o.arch = Architecture::kServers; }),
                HasSubstr("--arch ring"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.servers = 1; }, 4), HasSubstr("--servers"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.mode = "asgd"; }, 4), HasSubstr("asgd"));
    const auto two_servers = [](TrainOptions& o) {
        o.arch = Architecture::kServers;
        o.servers = 2;
    };
    EXPECT_THAT(complaint(two_servers, 2), HasSubstr("2 servers and at least one worker"));
    EXPECT_EQ(complaint(two_servers, 3), "");
}

TEST(TrainOptions, ARunThatGoesOnMayHaveFewerRanks) {
    for (const bool resume : {false, true}) {
        const auto began_with_six = [resume](TrainOptions& o) {
            o.arch = Architecture::kServers;
            o.mode = "static:5";
            o.inject = "rank=5,cpu=0.5";
            o.resume = resume;
        };
        const auto scheduled = [resume](TrainOptions& o) {
            o.arch = Architecture::kServers;
            o.mode_schedule = "0:ssgd,1000:backup:4";
            o.resume = resume;
        };
        EXPECT_EQ(complaint(began_with_six, 6), "");
        EXPECT_EQ(complaint(began_with_six, 5).empty(), resume);
        EXPECT_EQ(complaint(scheduled, 6), "");
        EXPECT_EQ(complaint(scheduled, 4).empty(), resume);
    }
}

TEST(TrainOptions, ServersComputeNothingThatCouldBeSlower) {
    const auto with = [](const std::string& inject, Architecture arch) {
        return complaint(
            [&](TrainOptions& o) {
                o.arch = arch;
                o.inject = inject;
            },
            3);
    };
    EXPECT_THAT(with("rank=0,cpu=0.5", Architecture::kServers), HasSubstr("rank 0, a server"));
    EXPECT_THAT(with("rank=0,delay=5ms", Architecture::kServers), HasSubstr("ranks 1 and up"));
    EXPECT_EQ(with("rank=0,bw=20MB/s;rank=0,freeze=1s..2s;rank=1,cpu=0.5", Architecture::kServers),
              "");
    EXPECT_EQ(with("rank=0,cpu=0.5", Architecture::kRing), "");
}

TEST(TrainOptions, WhatWasLeftOpenIsFilledIn) {
    TrainOptions ring = good();
    EXPECT_EQ(checked(ring, 4).mode, "ring");
    EXPECT_EQ(server_ranks(ring), 0);
    TrainOptions servers = good();
    servers.arch = Architecture::kServers;
    EXPECT_EQ(checked(servers, 4).mode, "ssgd");
    EXPECT_EQ(checked(servers, 4).servers, 1);
    servers.mode = "asgd";
    EXPECT_EQ(checked(servers, 4).mode, "asgd");
}

TEST(TrainOptions, ModesMustFitFromTheStartOn) {
    const auto with = [](const std::string& mode, const std::string& schedule,
                         bool strict = false) {
        return complaint(
            [&](TrainOptions& o) {
                o.arch = Architecture::kServers;
                o.mode = mode;
                o.mode_schedule = schedule;
                o.deterministic = strict;
            },
            5);
    };
    EXPECT_EQ(with("", "0:ssgd,100:static:3,200:dynamic"), "");
    EXPECT_THAT(with("asgd", "0:ssgd"), HasSubstr("--mode, --mode-schedule"));
    EXPECT_THAT(with("", "0:ssgd,100:static:5"), HasSubstr("static"));
    EXPECT_THAT(with("", "10:ssgd"), HasSubstr("--mode-schedule"));
    for (const char* policy : {"lb-bsp", "sync-switch:0.5", "flexrr", "cutoff", "dynamic"}) {
        EXPECT_EQ(with(policy, ""), "") << policy;
    }
    EXPECT_EQ(with("ssgd", "", true), "");
    EXPECT_EQ(with("dynamic", "", true), "") << "without times it stays one cohort";
    EXPECT_THAT(with("asgd", "", true), HasSubstr("--deterministic"));
    EXPECT_THAT(with("", "0:ssgd,100:asgd", true), HasSubstr("--deterministic"));
    EXPECT_THAT(with("sync-switch:0.5", "", true), HasSubstr("--deterministic"))
        << "it ends in asgd";
}

TEST(TrainOptions, SumsOfADeterministicRunKeepTheirBits) {
    const auto with = [](const std::string& sums, bool strict) {
        return complaint([&](TrainOptions& o) {
            o.all_reduce = sums;
            o.deterministic = strict;
        });
    };
    EXPECT_EQ(with("nccl", false), "");
    EXPECT_THAT(with("nccl", true), HasSubstr("--all-reduce"));
    EXPECT_THAT(with("nccl", true), HasSubstr("--deterministic"));
    for (const char* sums : {"auto", "ordered", "ring", "mpi"}) {
        EXPECT_EQ(with(sums, true), "") << sums;
    }
}

TEST(TrainOptions, TreesNeedServersWithEqualShards) {
    const auto with = [](Architecture arch, ShardSizes shards, const std::string& tree) {
        return complaint(
            [&](TrainOptions& o) {
                o.arch = arch;
                o.shards = shards;
                o.push_tree = tree;
            },
            4);
    };
    EXPECT_EQ(with(Architecture::kServers, ShardSizes::kEqual, "auto"), "");
    EXPECT_THAT(with(Architecture::kRing, ShardSizes::kEqual, "auto"), HasSubstr("--push-tree"));
    EXPECT_THAT(with(Architecture::kServers, ShardSizes::kEqual, "1,1"), HasSubstr("--push-tree"));
    EXPECT_EQ(with(Architecture::kServers, ShardSizes::kCapacity, "off"), "");
    EXPECT_THAT(with(Architecture::kServers, ShardSizes::kCapacity, "auto"),
                AllOf(HasSubstr("--shards"), HasSubstr("--push-tree")));
}

TEST(TrainOptions, LimitsOfWaitingAndSizesAreChecked) {
    EXPECT_THAT(complaint([](TrainOptions& o) { o.stall_limit_s = 0; }),
                HasSubstr("--stall-limit-s"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.lost_after_s = 61; }),
                HasSubstr("--lost-after-s"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.bucket_bytes = 1; }),
                HasSubstr("--bucket-bytes"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.chunk_bytes = 0; }), HasSubstr("--chunk-bytes"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.eval_share = 0; }), HasSubstr("--eval-share"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.all_reduce = "tree"; }),
                HasSubstr("--all-reduce"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.inject = "rank=1,cpu=0.5"; }),
                HasSubstr("--inject"));
}

TEST(TrainOptions, LossesAndStudiesAreChecked) {
    EXPECT_THAT(complaint([](TrainOptions& o) { o.max_lost = -2; }), HasSubstr("--max-lost"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.noise_scale = -1; }), HasSubstr("--noise-scale"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.noise_scale = 100; }), HasSubstr("adascale"));
    EXPECT_THAT(complaint([](TrainOptions& o) { o.record_rates = o.deterministic = true; }),
                HasSubstr("--record-rates"));
    EXPECT_EQ(complaint([](TrainOptions& o) {
                  o.lr_rule = SyncPlan::LrUnit::kAdaScale;
                  o.noise_scale = 100;
              }),
              "");
    EXPECT_THAT(complaint([](TrainOptions& o) { o.compute = "sleep"; }), HasSubstr("--compute"));
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

TEST(TrainOptions, ChoosersAreToldWhatWasAskedFor) {
    EXPECT_THAT(complaint([](TrainOptions& o) { o.predictor = "oracle"; }),
                HasSubstr("last, ewma, episodes, lstm, auto"));
    const auto unread = [](TrainOptions& o) {
        o.predictor = "last";
        o.predictor_file = "model.h5";
    };
    EXPECT_THAT(complaint(unread), HasSubstr("--predictor-file"));
    TrainOptions options = good();
    options.predictor = "ewma";
    const ChooserOptions chooser = mode_setting(options, 2).chooser;
    EXPECT_EQ(chooser.predictor, "ewma");
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
    const Graph graph = make_model("softmax", Shape{1, 4, 4}, 4);
    const auto identity = [&](const SampleSetInfo& set) {
        return run_identity(good(), set, graph);
    };
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
