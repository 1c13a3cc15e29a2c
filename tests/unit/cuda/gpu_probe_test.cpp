// What NVML's answers become. The library is one of the test's own (support/gpu/fake_nvml.cpp),
// which the loader finds first: LD_LIBRARY_PATH is set where the test is declared.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cohort/core/resource_use.hpp"
#include "core/tensor/gpu_probe.hpp"
#include "support/gpu/fake_nvml.hpp"

namespace cohort {
namespace {

test::FakeNvml* fake() {
    static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    static void* const found = library == nullptr ? nullptr : dlsym(library, "fake_nvml");
    return static_cast<test::FakeNvml*>(found);
}

class GpuProbes : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_NE(fake(), nullptr) << "LD_LIBRARY_PATH does not name the test's library";
        *fake() = {};
        probe_ = make_gpu_probe("0000:1b:00.0");
        ASSERT_NE(probe_, nullptr);
    }
    std::unique_ptr<GpuProbe> probe_;
};

TEST_F(GpuProbes, AHealthyGpuIsHeldBackByNothing) {
    const GpuState state = probe_->read();
    EXPECT_EQ(state.clock_share, 1);
    EXPECT_EQ(state.celsius, 40);
    EXPECT_EQ(state.others_busy, 0);
    EXPECT_EQ(state.limits, 0);
}

TEST_F(GpuProbes, ReasonsOfLowClocksAreNamed) {
    fake()->clock = 990;
    fake()->celsius = 91;
    const auto limits_of = [&](unsigned long long reasons) {
        fake()->reasons = reasons;
        return static_cast<unsigned int>(probe_->read().limits);
    };
    EXPECT_EQ(limits_of(0x01), 0U) << "idle";
    EXPECT_EQ(limits_of(0x20), bit_of(DeviceLimit::kThermal));
    EXPECT_EQ(limits_of(0x40 | 0x08), bit_of(DeviceLimit::kThermal));
    EXPECT_EQ(limits_of(0x80 | 0x08), bit_of(DeviceLimit::kHardware));
    EXPECT_EQ(limits_of(0x04), bit_of(DeviceLimit::kPower));
    EXPECT_EQ(limits_of(0x04 | 0x40), bit_of(DeviceLimit::kPower) | bit_of(DeviceLimit::kThermal));
    EXPECT_EQ(probe_->read().clock_share, 0.5);
    EXPECT_EQ(probe_->read().celsius, 91);
}

TEST_F(GpuProbes, EccErrorsCountWhenTheyAreNew) {
    fake()->corrected = 7;  // before the job
    EXPECT_EQ(probe_->read().limits, 0);
    fake()->uncorrected = 1;
    EXPECT_EQ(probe_->read().limits, bit_of(DeviceLimit::kMemory));
    EXPECT_EQ(probe_->read().limits, 0);
}

TEST_F(GpuProbes, OtherProcessesAreThoseBesideThisOne) {
    const auto self = static_cast<unsigned int>(::getpid());
    fake()->processes = {{.pid = self, .sm_percent = 60}, {.pid = 1, .sm_percent = 25}};
    const GpuState state = probe_->read();
    EXPECT_EQ(state.others_busy, 0.25);
    EXPECT_EQ(state.limits, bit_of(DeviceLimit::kShared));
    (void)probe_->read();
    EXPECT_EQ(fake()->asked_since, 1001U) << "only newer samples";
    fake()->processes = {{.pid = self, .sm_percent = 60}};
    EXPECT_EQ(probe_->read().limits, 0);
    fake()->processes = {{.pid = 1, .sm_percent = 60}};
    EXPECT_EQ(probe_->read().others_busy, 0)
        << "numbers of another container: own work may be in it";
}

TEST_F(GpuProbes, WhatIsNotSupportedIsNotKnown) {
    fake()->silent = true;
    const GpuState state = probe_->read();
    EXPECT_EQ(state.clock_share, 1);
    EXPECT_EQ(state.celsius, 0);
    EXPECT_EQ(state.limits, 0);
}

TEST_F(GpuProbes, ThereIsNoneForAnUnknownGpuOrALibraryThatDoesNotStart) {
    EXPECT_EQ(make_gpu_probe("0000:2b:00.0"), nullptr);
    fake()->starts = false;
    EXPECT_EQ(make_gpu_probe("0000:1b:00.0"), nullptr);
}

}  // namespace
}  // namespace cohort
