// A libnvidia-ml.so.1 that answers what a test tells it to.
#include "support/gpu/fake_nvml.hpp"

#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kTooSmall = 7;

struct Sample {
    unsigned int pid;
    unsigned long long timestamp;
    unsigned int sm;
    unsigned int others[3];
};

}  // namespace

extern "C" {

cohort::test::FakeNvml fake_nvml;

int nvmlInit_v2() {
    return fake_nvml.starts ? kSuccess : kNotSupported;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
    *device = &fake_nvml;
    return std::strcmp(bus, fake_nvml.bus) == 0 ? kSuccess : kNotFound;
}
static int answer(unsigned int value, unsigned int* to) {
    *to = fake_nvml.silent ? 0 : value;
    return fake_nvml.silent ? kNotSupported : kSuccess;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned int* mhz) {
    return kind == 1 ? answer(fake_nvml.clock, mhz) : kNotSupported;
}
int nvmlDeviceGetMaxClockInfo(void*, int kind, unsigned int* mhz) {
    return kind == 1 ? answer(fake_nvml.most_clock, mhz) : kNotSupported;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned int* celsius) {
    return sensor == 0 ? answer(fake_nvml.celsius, celsius) : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
    *reasons = fake_nvml.reasons;
    return fake_nvml.silent ? kNotSupported : kSuccess;
}
int nvmlDeviceGetTotalEccErrors(void*, int kind, int counter, unsigned long long* count) {
    *count = kind == 0 ? fake_nvml.corrected : fake_nvml.uncorrected;
    return fake_nvml.silent || counter != 0 ? kNotSupported : kSuccess;
}
int nvmlDeviceGetProcessUtilization(void*, Sample* samples, unsigned int* count,
                                    unsigned long long since) {
    const auto there = static_cast<unsigned int>(fake_nvml.processes.size());
    if (fake_nvml.silent) {
        return kNotSupported;
    }
    if (samples == nullptr || *count < there) {
        *count = there;
        return there == 0 ? kSuccess : kTooSmall;
    }
    fake_nvml.asked_since = since;
    *count = there;
    for (unsigned int i = 0; i < there; ++i) {
        samples[i] = {
            fake_nvml.processes[i].pid, 1000ULL + i, fake_nvml.processes[i].sm_percent, {}};
    }
    return kSuccess;
}

}  // extern "C"
