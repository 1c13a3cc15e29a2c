#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/dnn_api.hpp"
#include "layers/cuda/dnn/dnn_graph.hpp"

// GPUs for which cuDNN makes plans although they are not there.
namespace cohort::cuda {

inline constexpr std::string_view kH100 =
    R"({"deviceVer":900,"cudaDeviceId":0,"deviceName":"H100","multiProcessorCount":132,)"
    R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,)"
    R"("driverVer":13000,"totalGlobalMem":85029158912})";
inline constexpr std::string_view kA100 =
    R"({"deviceVer":800,"cudaDeviceId":0,"deviceName":"A100","multiProcessorCount":108,)"
    R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":166912,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,)"
    R"("driverVer":13000,"totalGlobalMem":85029158912})";

/// A GPU that need not be there.
class DescribedGpu final : public DnnTarget {
public:
    explicit DescribedGpu(std::string_view text)
        : properties_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
        properties_.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        static_cast<std::int64_t>(text.size()), text.data());
        properties_.finalize("described GPU");
    }
    void set_on_graph(DnnDescriptor& /*graph*/) const override {}
    void set_on_heuristics(DnnDescriptor& heuristics) const override {
        heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties_);
    }
    void set_on_plan(DnnDescriptor& plan) const override {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_);
    }

private:
    DnnDescriptor properties_;
};

/// Skips where cuDNN is missing, or too old for described GPUs.
class DescribedGpuTest : public testing::Test {
protected:
    void SetUp() override {
        try {
            if (dnn().version() < 90800) {
                GTEST_SKIP() << "cuDNN " << dnn().version() << " is older than 9.8";
            }
        } catch (const DeviceError& missing) {
            GTEST_SKIP() << missing.what();
        }
    }
};

}  // namespace cohort::cuda
