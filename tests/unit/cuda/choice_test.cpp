// Which device `--device` takes on machines whose GPUs or libraries are too old or not there: the
// CPU plays the GPUs, a list says what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/tensor/cuda/gpu_code.hpp"
#include "gpu_on_cpu/machine.hpp"
#include "support/core/message_of.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What is said on standard error when the device is made.
struct Choice {
    DeviceKind kind = DeviceKind::kCpu;
    std::string said;
};
Choice choose(std::string_view option) {
    testing::internal::CaptureStderr();
    const DeviceKind kind = make_device(option, 1)->kind();
    return {kind, testing::internal::GetCapturedStderr()};
}

std::string refusal(std::string_view option) {
    return test::message_of<DeviceError>([&] { return make_device(option, 1); });
}

class DeviceChoice : public testing::Test {
protected:
    void TearDown() override { on_cpu::played_machine() = {}; }
    static on_cpu::PlayedMachine& machine() { return on_cpu::played_machine(); }
};

TEST(CodeForGpus, MachineCodeHoldsForLaterMinorsAndPtxForAllThatIsLater) {
    const auto runs = [](std::string_view built, int major, int minor) {
        return cuda::has_code_for(built, major, minor);
    };
    for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 1}}) {
        EXPECT_TRUE(runs("80-real 90", major, minor)) << major << "." << minor;
        EXPECT_TRUE(runs("80-real;90", major, minor)) << major << "." << minor;
    }
    EXPECT_FALSE(runs("80-real 90", 7, 5));
    EXPECT_FALSE(runs("86-real 90", 8, 0));
    EXPECT_FALSE(runs("80-real 90-real", 10, 0));
    EXPECT_TRUE(runs("80-virtual", 9, 0));
    EXPECT_TRUE(runs("90a", 9, 0));
    EXPECT_FALSE(runs("90a", 10, 0)) << "for that GPU alone";
    EXPECT_TRUE(runs("100f-real", 10, 3));
    EXPECT_FALSE(runs("100f", 12, 0)) << "for that family alone";
    EXPECT_TRUE(runs("native", 5, 0)) << "not known";
}

TEST_F(DeviceChoice, AGpuThatCanBeUsedIsTakenInSilence) {
    const Choice made = choose("auto");
    EXPECT_EQ(made.kind, DeviceKind::kCuda);
    EXPECT_EQ(made.said, "");
    EXPECT_EQ(usable_gpus().count, 1);
}

TEST_F(DeviceChoice, AutoTakesTheCpuBesideAGpuWithoutCodeAndCudaSaysTheSame) {
    machine().gpus = {{7, 0}};
    const Choice made = choose("auto");
    EXPECT_EQ(made.kind, DeviceKind::kCpu);
    EXPECT_THAT(made.said, AllOf(HasSubstr("--device auto takes the CPU"), HasSubstr("7.0")));
    EXPECT_EQ(std::count(made.said.begin(), made.said.end(), '\n'), 1);
    EXPECT_EQ(gpus_for("auto"), 0);
    EXPECT_EQ(gpus_for("cuda"), 1) << "whose use is an error with its reason";
    EXPECT_THAT(made.said, HasSubstr(refusal("cuda")));
    EXPECT_THAT(refusal("cuda:0"), HasSubstr("compute capability 7.0"));
}

TEST_F(DeviceChoice, WithoutAnyGpuNothingIsSaid) {
    machine().gpus.clear();
    const Choice made = choose("auto");
    EXPECT_EQ(made.kind, DeviceKind::kCpu);
    EXPECT_EQ(made.said, "");
}

TEST_F(DeviceChoice, AutoGoesRoundTheGpusBeforeTheFirstWithoutCode) {
    machine().gpus = {{9, 0}, {8, 6}, {6, 1}};
    EXPECT_EQ(gpus_for("auto"), 2);
    EXPECT_EQ(gpus_for("cuda"), 3);
    EXPECT_EQ(gpus_for("cuda:1"), 0);
    EXPECT_EQ(choose("auto").kind, DeviceKind::kCuda);
}

TEST_F(DeviceChoice, AutoWantsTheLibraries) {
    for (const std::string missing : {"cuDNN 9", "cuBLASLt", "cudnnGetLastErrorString"}) {
        machine().missing = {missing};
        const Choice made = choose("auto");
        EXPECT_EQ(made.kind, DeviceKind::kCpu) << missing;
        EXPECT_THAT(made.said, HasSubstr(missing + " is missing"));
        EXPECT_EQ(gpus_for("auto"), 0) << missing;
        EXPECT_EQ(make_device("cuda", 1)->kind(), DeviceKind::kCuda)
            << "who needs the library says so: not every network and no server does";
    }
}

TEST_F(DeviceChoice, InAJobOneWorkerOfAHostSaysWhy) {
    machine().gpus = {{7, 5}};
    RankMap map;
    for (int rank = 0; rank < 3; ++rank) {
        map.ranks.push_back({.rank = rank, .host = "h", .node = rank / 2, .role = Role::kWorker});
    }
    for (int rank = 0; rank < 3; ++rank) {
        testing::internal::CaptureStderr();
        EXPECT_EQ(device_of_this_rank("auto", map, rank), "cpu");
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(said.empty(), rank == 1) << said;
        testing::internal::CaptureStderr();
        EXPECT_EQ(device_of_this_rank("cpu", map, rank), "cpu");
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    }
}

}  // namespace
}  // namespace cohort
