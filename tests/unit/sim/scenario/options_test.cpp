#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "cohort/core/error.hpp"
#include "cohort/sim/simulation.hpp"
#include "support/core/message_of.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SimulateOptions usable() {
    SimulateOptions options;
    options.data = "data.h5";
    options.time_as = "resnet50";
    return options;
}

std::string error_of(const std::function<void(SimulateOptions&)>& change) {
    SimulateOptions options = usable();
    change(options);
    return test::message_of<UsageError>([&] { (void)checked(options); });
}

TEST(SimulateOptionsTest, UsableOnesPass) {
    EXPECT_NO_THROW((void)checked(usable()));
    EXPECT_EQ(error_of([](auto& o) { o.arch = Architecture::kRing; }), "");
    EXPECT_EQ(error_of([](auto& o) { o.mode = "static:4", o.pattern = "persistent:2"; }), "");
    EXPECT_EQ(error_of([](auto& o) { o.mode_schedule = "0:ssgd,1000:asgd"; }), "");
    EXPECT_EQ(error_of([](auto& o) { o.data = "", o.no_train = true, o.samples = 1000; }), "");
    EXPECT_EQ(error_of([](auto& o) { o.trace = "trace.csv"; }), "");
    EXPECT_EQ(error_of([](auto& o) { o.workers = 64, o.nodes = 8; }), "");
}

struct Wrong {
    const char* names;  ///< must be in the message
    std::function<void(SimulateOptions&)> change;
};

TEST(SimulateOptionsTest, EveryWrongValueIsNamed) {
    const std::vector<Wrong> wrong{
        {"--data", [](auto& o) { o.data = ""; }},
        {"--model", [](auto& o) { o.model = "huge"; }},
        {"--workers", [](auto& o) { o.workers = 0; }},
        {"--servers", [](auto& o) { o.servers = -1; }},
        {"--servers", [](auto& o) { o.arch = Architecture::kRing, o.servers = 2; }},
        {"--server-nodes",
         [](auto& o) { o.arch = Architecture::kRing, o.server_nodes = ServerNodes::kOwn; }},
        {"--node-staging",
         [](auto& o) { o.arch = Architecture::kRing, o.node_staging = NodeStaging::kOn; }},
        {"--push-tree", [](auto& o) { o.arch = Architecture::kRing, o.push_tree = "auto"; }},
        {"--push-tree", [](auto& o) { o.push_tree = "on"; }},
        {"equal with --push-tree",
         [](auto& o) { o.shards = ShardSizes::kCapacity, o.push_tree = "auto"; }},
        {"--nodes", [](auto& o) { o.nodes = 9; }},
        {"--nodes", [](auto& o) { o.workers = 100, o.nodes = 2; }},
        {"persistent", [](auto& o) { o.pattern = "tempest"; }},
        {"--pattern, --trace", [](auto& o) { o.pattern = "half", o.trace = "t.csv"; }},
        {"static:9", [](auto& o) { o.mode = "static:9"; }},
        {"asgd", [](auto& o) { o.arch = Architecture::kRing, o.mode = "asgd"; }},
        {"--mode, --mode-schedule", [](auto& o) { o.mode = "asgd", o.mode_schedule = "0:ssgd"; }},
        {"--mode-schedule", [](auto& o) { o.mode_schedule = "10:ssgd"; }},
        {"static:99", [](auto& o) { o.mode_schedule = "0:ssgd,10:static:99"; }},
        {"--batch", [](auto& o) { o.batch = 0; }},
        {"--lr", [](auto& o) { o.lr = 0; }},
        {"schedule", [](auto& o) { o.lr_schedule = "linear"; }},
        {"--noise-scale", [](auto& o) { o.noise_scale = 10; }},
        {"--predictor", [](auto& o) { o.predictor = "tarot"; }},
        {"--predictor-file", [](auto& o) { o.predictor = "ewma", o.predictor_file = "m.toml"; }},
        {"--momentum", [](auto& o) { o.momentum = 1; }},
        {"--weight-decay", [](auto& o) { o.weight_decay = -1; }},
        {"--target-accuracy", [](auto& o) { o.target_accuracy = 88; }},
        {"--samples", [](auto& o) { o.samples = -1; }},
        {"--virtual-limit-s", [](auto& o) { o.virtual_limit_s = -1; }},
        {"--eval-every-samples", [](auto& o) { o.eval_every_samples = -1; }},
        {"--eval-samples", [](auto& o) { o.eval_samples = -1; }},
        {"--eval-average", [](auto& o) { o.eval_average = -1; }},
        {"--target-on", [](auto& o) { o.target_on = TargetOn::kAverage; }},
        {"--threads", [](auto& o) { o.threads = -1; }},
        {"--samples", [](auto& o) { o.no_train = true, o.data = ""; }},
        {"--target-accuracy", [](auto& o) { o.no_train = true, o.target_accuracy = 0.5; }},
        {"--eval-samples", [](auto& o) { o.no_train = true, o.eval_samples = 5; }},
        {"--eval-average", [](auto& o) { o.no_train = true, o.eval_average = 5; }},
        {"resnet50", [](auto& o) { o.time_as = "nothing-measured"; }},
    };
    for (const Wrong& one : wrong) {
        EXPECT_THAT(error_of(one.change), HasSubstr(one.names));
    }
}

TEST(SimulateOptionsTest, ChoosersAreToldWhatWasAskedFor) {
    SimulateOptions options = usable();
    options.predictor = "oracle";
    options.chooser_file = "c.toml";
    options.record_rates = true;
    const ChooserOptions chooser = mode_setting(checked(options)).chooser;
    EXPECT_EQ(chooser.predictor, "oracle");
    EXPECT_EQ(chooser.chooser_file, "c.toml");
    EXPECT_TRUE(chooser.record_rates);
}

TEST(SimulateOptionsTest, AProfileMustKnowTheWorkloadAndHaveRoom) {
    ClusterProfile profile;
    profile.name = "small";
    profile.devices_per_node = 2;
    profile.workloads["mlp"] = {};
    SimulateOptions options = usable();
    options.time_as = "mlp";
    options.nodes = 4;
    EXPECT_NO_THROW(check_profile(resolved(options), profile));
    options.nodes = 3;
    EXPECT_THROW(check_profile(resolved(options), profile), UsageError);
    options.nodes = 4;
    options.time_as = "";
    EXPECT_THROW(check_profile(resolved(options), profile), UsageError) << "the model's own name";
}

TEST(SimulateOptionsTest, WhatOthersDecideIsFilledIn) {
    SimulateOptions options;
    EXPECT_EQ(resolved(options).mode, "ssgd");
    EXPECT_EQ(resolved(options).servers, 1);
    EXPECT_EQ(resolved(options).nodes, 8);
    EXPECT_EQ(resolved(options).time_as, "smallcnn");
    options.arch = Architecture::kRing;
    EXPECT_EQ(resolved(options).mode, "ring");
    EXPECT_EQ(resolved(options).servers, 0);
    options.mode_schedule = "0:ring";
    EXPECT_EQ(resolved(options).mode, "");
}

TEST(SimulateOptionsTest, TheCommandNamesWhatDiffersFromTheDefaults) {
    EXPECT_EQ(command_text({}), "cohort simulate");
    SimulateOptions options;
    options.data = "my data/it's.h5";
    options.mode = "static:4";
    options.no_train = true;
    options.lr = 0.1;
    options.out = "results";
    options.overwrite = true;
    EXPECT_EQ(command_text(options),
              "cohort simulate --data 'my data/it'\\''s.h5' --no-train --mode static:4 --lr 0.1");
}

TEST(SimulateOptionsTest, EveryOptionHasItsOwnName) {
    std::set<std::string> names;
    for (const auto& [name, value] : option_values({})) {
        EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_GT(names.size(), 40U);
}

}  // namespace
}  // namespace cohort
