#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/recorded/profile.hpp"
#include "data/file/text_file.hpp"
#include "support/core/temp_folder.hpp"

namespace {

using cohort::ClusterProfile;
using cohort::load_profile;
using cohort::Workload;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kSmall = R"(name = "small"
cores = 2
nic_bytes_per_s = 1e9
local_bytes_per_s = 2e9
memory_bytes_per_s = 3e9

[workloads.tiny]
device_s_per_sample = 0.001
parameter_bytes = 4000
)";

/// The message of the error that a text gives as a profile.
template <class E>
std::string refusal(const std::string& text) {
    const cohort::TempFolder folder;
    const std::string file = folder.file("p.toml");
    cohort::replace_text_file(file, text);
    try {
        static_cast<void>(load_profile(file));
    } catch (const E& error) {
        const std::string message = error.what();
        return message.substr(0, 1) + message.substr(1 + folder.path().size());
    }
    return "accepted";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(Profile, ReadsAFileAndFillsInWhatMayBeMissing) {
    const cohort::TempFolder folder;
    cohort::replace_text_file(folder.file("p.toml"), kSmall);
    const ClusterProfile profile = load_profile(folder.file("p.toml"));
    EXPECT_EQ(profile.name, "small");
    EXPECT_EQ(profile.devices_per_node, 1);
    EXPECT_EQ(profile.cores, 2);
    EXPECT_EQ(profile.nic_bytes_per_s, 1e9);
    EXPECT_EQ(profile.latency_s, 0);
    const Workload& tiny = profile.workload("tiny");
    EXPECT_EQ(tiny.name, "tiny");
    EXPECT_EQ(tiny.device_s_per_sample, 0.001);
    EXPECT_EQ(tiny.parameter_bytes, 4000);
    EXPECT_DOUBLE_EQ(tiny.backward_share, 2.0 / 3);
    EXPECT_EQ(tiny.cpu_threads, 1);
}

TEST(Profile, RefusesWhatItDoesNotKnowByLineAndKey) {
    EXPECT_EQ(refusal<cohort::FileError>(with(kSmall, "cores = 2", "cpus = 2")),
              "[/p.toml, line 1] a key is missing; expected cores");
    EXPECT_THAT(refusal<cohort::FileError>(with(kSmall, "cores = 2", "cores = 2\ncpus = 2")),
                HasSubstr("[/p.toml, line 3, cpus] not a key of a profile; expected name, source"));
    EXPECT_THAT(refusal<cohort::FileError>(kSmall + "bytes = 3\n"),
                HasSubstr("[/p.toml, line 10, workloads.tiny.bytes] not a key of a profile"));
}

TEST(Profile, RefusesNumbersOutOfRange) {
    EXPECT_EQ(refusal<cohort::FileError>(with(kSmall, "cores = 2", "cores = 0")),
              "[/p.toml, line 2, cores] cannot be used; expected a number, 0.001 to 1000000");
    EXPECT_EQ(refusal<cohort::FileError>(with(kSmall, "cores = 2", "cores = \"2\"")),
              "[/p.toml, line 2, cores] cannot be used; expected a number, 0.001 to 1000000");
    EXPECT_EQ(refusal<cohort::FileError>(with(kSmall, "cores = 2", "cores = nan")),
              "[/p.toml, line 2, cores] cannot be used; expected a number, 0.001 to 1000000");
    EXPECT_EQ(
        refusal<cohort::FileError>(kSmall + "backward_share = 1.5\n"),
        "[/p.toml, line 10, workloads.tiny.backward_share] cannot be used; expected a number, "
        "0 to 1");
    EXPECT_THAT(refusal<cohort::FileError>("devices_per_node = 1.5\n" + kSmall),
                HasSubstr("line 1, devices_per_node] cannot be used; expected a whole number"));
    EXPECT_THAT(refusal<cohort::FileError>("name = \n"), HasSubstr("line 1] not a TOML file"));
}

TEST(Profile, AnUnknownNameListsTheShippedOnes) {
    EXPECT_THAT([&] { static_cast<void>(load_profile("9gpu")); },
                ThrowsMessage<cohort::UsageError>(
                    AllOf(HasSubstr("8gpu-10g, 8gpu-100g, laptop"), HasSubstr("got '9gpu'"))));
    EXPECT_THROW(static_cast<void>(load_profile("missing.toml")), cohort::FileError);
}

TEST(Profile, AnUnknownWorkloadListsTheOnesThereAre) {
    const ClusterProfile profile = load_profile("8gpu-10g");
    EXPECT_THAT([&] { static_cast<void>(profile.workload("resnet18")); },
                ThrowsMessage<cohort::UsageError>(
                    HasSubstr("expected alexnet, densenet121, googlenet, inception3, lenet, lstm, "
                              "mobilenet2, mobilenetv2, resnet152")));
}

void expect_equal(const ClusterProfile& a, const ClusterProfile& b) {
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.source, b.source);
    EXPECT_EQ(a.devices_per_node, b.devices_per_node);
    EXPECT_EQ(a.nic_bytes_per_s, b.nic_bytes_per_s);
    EXPECT_EQ(a.latency_s, b.latency_s);
    EXPECT_EQ(a.local_bytes_per_s, b.local_bytes_per_s);
    EXPECT_EQ(a.cores, b.cores);
    EXPECT_EQ(a.memory_bytes_per_s, b.memory_bytes_per_s);
    EXPECT_EQ(a.update_s, b.update_s);
    EXPECT_EQ(a.server_threads, b.server_threads);
    EXPECT_EQ(a.device_memory_bytes_per_s, b.device_memory_bytes_per_s);
    ASSERT_EQ(a.workloads.size(), b.workloads.size());
    for (const auto& [name, one] : a.workloads) {
        const Workload& other = b.workload(name);
        EXPECT_EQ(one.source, other.source);
        EXPECT_EQ(one.device_s_per_sample, other.device_s_per_sample) << name;
        EXPECT_EQ(one.device_s, other.device_s) << name;
        EXPECT_EQ(one.cpu_s_per_sample, other.cpu_s_per_sample) << name;
        EXPECT_EQ(one.cpu_s, other.cpu_s) << name;
        EXPECT_EQ(one.cpu_threads, other.cpu_threads) << name;
        EXPECT_EQ(one.backward_share, other.backward_share) << name;
        EXPECT_EQ(one.parameter_bytes, other.parameter_bytes) << name;
    }
}

TEST(Profile, ItsTextGivesItAgain) {
    const cohort::TempFolder folder;
    for (const std::string& name : cohort::shipped_profiles()) {
        const ClusterProfile profile = load_profile(name);
        EXPECT_EQ(profile.name, name);
        EXPECT_FALSE(profile.source.empty());
        cohort::replace_text_file(folder.file("p.toml"), to_toml(profile));
        expect_equal(load_profile(folder.file("p.toml")), profile);
    }
    ClusterProfile odd{.name = "a \"name\"\\\n", .nic_bytes_per_s = 4.0 / 3};
    odd.local_bytes_per_s = odd.memory_bytes_per_s = 1e17;
    odd.workloads["a.b c"] = {.name = "a.b c", .device_s_per_sample = 1e-30, .parameter_bytes = 4};
    cohort::replace_text_file(folder.file("p.toml"), to_toml(odd));
    expect_equal(load_profile(folder.file("p.toml")), odd);
}

/// 64 images per iteration on one GPU: the published rates come out again.
TEST(Profile, TheShippedOnesGiveThePublishedRates) {
    const ClusterProfile profile = load_profile("8gpu-10g");
    const auto rate = [&](const char* name, double batch) {
        const Workload& work = profile.workload(name);
        return batch / (work.device_s + batch * work.device_s_per_sample);
    };
    EXPECT_NEAR(rate("resnet50", 64), 219, 0.1);
    EXPECT_NEAR(rate("resnet50", 32), 195, 0.1);
    EXPECT_NEAR(rate("resnet152", 64), 91.8, 0.05);
    EXPECT_NEAR(rate("inception3", 64), 142, 0.1);
    EXPECT_NEAR(rate("vgg16", 64), 154, 0.1);
    EXPECT_NEAR(rate("alexnet", 512), 2987, 1);
    EXPECT_EQ(profile.workloads.size(), 16U);
    EXPECT_GT(rate("mobilenet2", 64), rate("resnet50", 64)) << "a thirteenth of its operations";
}

TEST(Profile, TheShippedClustersHaveStarsTenModels) {
    for (const char* name : {"8gpu-10g", "8gpu-100g"}) {
        const ClusterProfile profile = load_profile(name);
        for (const char* model :
             {"alexnet", "resnet20", "resnet56", "vgg13", "vgg16", "densenet121", "googlenet",
              "mobilenetv2", "lstm", "transformer"}) {
            EXPECT_GT(profile.workload(model).parameter_bytes, 0) << name << " " << model;
        }
    }
}

/// Scaled from resnet50's 24.5 GFLOP in 4.004 ms; bytes and operations are the zoo's.
TEST(Profile, WorkloadsWithoutPublishedTimesFollowTheZoo) {
    const ClusterProfile profile = load_profile("8gpu-10g");
    for (const char* model : {"vgg13", "densenet121", "googlenet", "mobilenetv2"}) {
        const cohort::Graph graph = cohort::make_model(model, cohort::Shape{3, 32, 32}, 10);
        const Workload& work = profile.workload(model);
        EXPECT_EQ(work.parameter_bytes, 4 * static_cast<double>(graph.parameters().elements()));
        EXPECT_NEAR(work.device_s_per_sample, graph.training_flops_per_sample() * 4.004e-3 / 24.5e9,
                    1e-3 * work.device_s_per_sample)
            << model;
    }
}

TEST(Profile, TheLaptopHasNewModelsToo) {
    const ClusterProfile profile = load_profile("laptop");
    EXPECT_EQ(profile.workloads.size(), 11U);
    for (const char* model : {"alexnet", "vgg13", "googlenet", "densenet121", "mobilenetv2"}) {
        const cohort::Graph graph = cohort::make_model(model, cohort::Shape{3, 32, 32}, 10);
        const double floats =
            static_cast<double>(graph.parameters().total() + graph.state().total());
        EXPECT_EQ(profile.workload(model).parameter_bytes, 4 * floats) << model;
    }
}

TEST(Profile, TheShippedClustersDifferInTheirNetworkOnly) {
    ClusterProfile slow = load_profile("8gpu-10g");
    const ClusterProfile fast = load_profile("8gpu-100g");
    EXPECT_GT(fast.nic_bytes_per_s, 9 * slow.nic_bytes_per_s);
    EXPECT_LT(fast.latency_s, slow.latency_s);
    slow.name = fast.name;
    slow.source = fast.source;
    slow.nic_bytes_per_s = fast.nic_bytes_per_s;
    slow.latency_s = fast.latency_s;
    expect_equal(slow, fast);
}

}  // namespace
